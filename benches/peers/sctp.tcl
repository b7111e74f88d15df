# A bulk transfer over SCTP with two paths, in ns-2: what `_sctp` of tools/bench_peers.py says.
# `ns sctp.tcl SEED` prints how many packets went into the last link of each path towards the receiver.
#
# It is not the call of benches/voip_call.toml: without the study's patches ns-2 has no delay-centric
# selection, and its applications' messages wait for the acknowledgement of what is outstanding.
ns-random [lindex $argv 0]
set ns [new Simulator]

set core(sender) [$ns node]
set core(receiver) [$ns node]
foreach path {0 1} {
    set nodes {}
    for {set number 0} {$number < 4} {incr number} {
        lappend nodes [$ns node]
    }
    lassign $nodes first near far last
    set to($path) $last
    $ns multihome-add-interface $core(sender) $first
    $ns multihome-add-interface $core(receiver) $last
    foreach {one other} [list $first $near $near $far $far $last] {
        $ns duplex-link $one $other 1Mb 10ms DropTail
        $ns queue-limit $one $other 50
        $ns queue-limit $other $one 50
    }
    set losses [new ErrorModel]
    $losses unit pkt
    $losses set rate_ 0.01
    $losses ranvar [new RandomVariable/Uniform]
    $losses drop-target [new Agent/Null]
    $ns link-lossmodel $losses $far $last
    set monitor($path) [$ns monitor-queue $far $last ""]

    # Poisson arrivals: bursts of no length at an endless rate.
    set udp [new Agent/UDP]
    $ns attach-agent $near $udp
    set null [new Agent/Null]
    $ns attach-agent $far $null
    $ns connect $udp $null
    set background [new Application/Traffic/Exponential]
    $background set packetSize_ 500
    $background set burst_time_ 0s
    $background set idle_time_ 8ms
    $background set rate_ 10Tb
    $background attach-agent $udp
    $ns at 0.0 "$background start"
}

foreach name {sender receiver} {
    set sctp($name) [new Agent/SCTP]
    $ns multihome-attach-agent $core($name) $sctp($name)
    $sctp($name) set mtu_ 1500
    $sctp($name) set dataChunkSize_ 1468
    $sctp($name) set heartbeatInterval_ 1
}
$ns connect $sctp(sender) $sctp(receiver)
$sctp(sender) set-primary-destination $to(0)
set bulk [new Application/FTP]
$bulk attach-agent $sctp(sender)
$ns at 0.0 "$bulk start"
$ns at 300.0 "finish"

proc finish {} {
    global monitor
    puts "[$monitor(0) set parrivals_] [$monitor(1) set parrivals_]"
    exit 0
}
$ns run
