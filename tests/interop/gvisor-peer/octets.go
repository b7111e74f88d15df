package main

import (
	"errors"
	"io"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
)

// The pattern of crates/anabranch-live/examples/stream_peer repeats after so many octets.
const period = 65_521

// pattern is long enough that any piece of a megabyte or less is a slice of it.
func pattern() []byte {
	state := uint32(1)
	once := make([]byte, period)
	for place := range once {
		state = (state*1_103_515_245 + 12_345) & 0x7FFFFFFF
		once[place] = byte(state >> 16)
	}
	whole := []byte{}
	for len(whole) < period+1<<20 {
		whole = append(whole, once...)
	}
	return whole
}

// exchangeOctets sends `send` octets of the pattern, compares what comes with it up to the peer's end, and
// says what kernel_stream_peer.py says. Its own end comes when all is sent and received.
func exchangeOctets(connection *gonet.TCPConn) map[string]any {
	content, begun := pattern(), time.Now()
	failures := make(chan error, 2)
	enough, isEnough := make(chan struct{}), false
	sent := uint(0)
	go func() {
		for sent < send {
			start := sent % period
			n, err := connection.Write(content[start : start+min(1<<16, send-sent)])
			sent += uint(n)
			if err != nil {
				failures <- err
				return
			}
		}
		<-enough
		failures <- connection.CloseWrite()
	}()
	received, hasEnd := uint(0), false
	var wrongAt any
	some := make([]byte, 1<<18)
	var failure error
	for {
		if received >= receive && !isEnough {
			close(enough)
			isEnough = true
		}
		n, err := connection.Read(some)
		start := received % period
		if wrongAt == nil && string(some[:n]) != string(content[start:start+uint(n)]) {
			wrongAt = received
		}
		received += uint(n)
		if hasEnd = errors.Is(err, io.EOF); err != nil {
			if !hasEnd {
				failure = err
			}
			break
		}
	}
	if !isEnough {
		close(enough)
	}
	if err := <-failures; failure == nil {
		failure = err
	}
	said := map[string]any{
		"event": "closed", "sent": sent, "received": received, "wrong_at": wrongAt, "has_end": hasEnd, "error": "",
		"seconds": time.Since(begun).Seconds(),
		"info":    map[string]any{"retransmissions": netstack.Stats().TCP.Retransmits.Value()},
	}
	if failure != nil {
		said["error"] = failure.Error()
	}
	return said
}
