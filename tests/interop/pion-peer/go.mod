module pion-peer

go 1.26

require github.com/pion/sctp v1.12.1
