// A peer on pion/sctp: single-homed, over UDP, SCTP ports 5000. Command line, payload and the JSON at
// the end: README.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pion/sctp"
)

// What waits in pion is limited by hand: it takes whatever it is given.
const mostBuffered = 1 << 20

var (
	role                                                 string
	local, remote, closing                               string
	port, remotePort, encapsulation, remoteEncapsulation uint
	send, receive, streams, mtu                          uint
	retransmissions, lifetime, wrongByte                 int
	unordered, interleaving, resetStreams, echo          bool
	rate, timeout                                        float64
	linger, rtoMin                                       uint
	size                                                 = sizes{1000, 1000}
	lock                                                 sync.Mutex
	changed                                              = sync.NewCond(&lock)
	sent, received                                       = newFlow(), newFlow()
	established, lastData                                time.Time
	resetsSent, resetsReceived                           int
	problems                                             = []string{}
	over                                                 bool
	readers                                              = map[*sctp.Stream]bool{}
	end                                                  = "refused"
	// Packets are read from the socket by us, to see how the association ends: pion does not say.
	wire *conn
)

// conn is a UDP socket whose packets are looked at.
type conn struct {
	net.Conn
	aborted, shutdown bool
}

func (c *conn) note(packet []byte) {
	if len(packet) < 16 {
		return
	}
	lock.Lock()
	defer lock.Unlock()
	switch packet[12] {
	case 6: // ABORT
		c.aborted = true
	case 8, 14: // SHUTDOWN ACK, SHUTDOWN COMPLETE
		c.shutdown = true
	}
}

func (c *conn) Read(to []byte) (int, error) {
	for {
		n, err := c.Conn.Read(to)
		// Nobody listens there yet, or no longer.
		if errors.Is(err, syscall.ECONNREFUSED) {
			continue
		}
		c.note(to[:max(n, 0)])
		return n, err
	}
}

func (c *conn) Write(packet []byte) (int, error) {
	c.note(packet)
	n, err := c.Conn.Write(packet)
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOBUFS) {
		return len(packet), nil
	}
	return n, err
}

func problem(err error) {
	lock.Lock()
	defer lock.Unlock()
	problems = append(problems, err.Error())
}

func say(event map[string]any) {
	text, _ := json.Marshal(event)
	fmt.Println(string(text))
}

// finish prints the result and ends the process. The caller holds the lock.
func finish() {
	all := map[string]any{"peer": "pion", "role": role, "end": end, "established": !established.IsZero()}
	sent.report("sent", all)
	received.report("received", all)
	since := func(at time.Time) float64 {
		if established.IsZero() || at.IsZero() {
			return 0
		}
		return at.Sub(established).Seconds()
	}
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	all["abandoned"], all["resets_failed"], all["path_events"] = 0, 0, []string{}
	all["resets_sent"], all["resets_received"], all["errors"] = resetsSent, resetsReceived, problems
	all["wall_s"], all["data_s"] = since(time.Now()), since(lastData)
	all["cpu_s"] = float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
	say(all)
	if established.IsZero() || end == "timeout" {
		os.Exit(1)
	}
	os.Exit(0)
}

func parse() {
	flags := flag.NewFlagSet("pion-peer", flag.ExitOnError)
	flags.StringVar(&local, "local", "", "")
	flags.StringVar(&remote, "remote", "", "")
	flags.UintVar(&port, "port", 5000, "")
	flags.UintVar(&remotePort, "remote-port", 5000, "")
	flags.UintVar(&encapsulation, "encapsulation", 0, "")
	flags.UintVar(&remoteEncapsulation, "remote-encapsulation", 0, "")
	flags.UintVar(&send, "send", 0, "")
	flags.UintVar(&receive, "receive", 0, "")
	flags.Var(&size, "size", "")
	flags.UintVar(&streams, "streams", 1, "")
	flags.BoolVar(&unordered, "unordered", false, "")
	flags.IntVar(&retransmissions, "retransmissions", -1, "")
	flags.IntVar(&lifetime, "lifetime", -1, "")
	flags.BoolVar(&interleaving, "interleaving", false, "")
	flags.BoolVar(&resetStreams, "reset-streams", false, "")
	flags.StringVar(&closing, "close", "wait", "")
	flags.Float64Var(&rate, "rate", 0, "")
	flags.BoolVar(&echo, "echo", false, "")
	flags.UintVar(&mtu, "mtu", 1200, "")
	flags.UintVar(&rtoMin, "rto-min", 0, "pion has no such setting: 1 s")
	flags.Float64Var(&timeout, "timeout", 60, "")
	flags.UintVar(&linger, "linger", 200, "")
	flags.IntVar(&wrongByte, "wrong-byte", -1, "")
	if len(os.Args) < 2 || (os.Args[1] != "listen" && os.Args[1] != "connect") {
		fmt.Fprintln(os.Stderr, "usage: pion-peer listen|connect OPTIONS (README.md)")
		os.Exit(2)
	}
	role = os.Args[1]
	_ = flags.Parse(os.Args[2:])
	if port != 5000 || remotePort != 5000 || encapsulation == 0 || remoteEncapsulation == 0 {
		fmt.Fprintln(os.Stderr, "pion-peer: speaks SCTP over UDP only, with the SCTP ports 5000")
		os.Exit(2)
	}
}

// open gives the stream of that number, set as the command line says.
func open(association *sctp.Association, id uint) (*sctp.Stream, error) {
	stream, err := association.OpenStream(uint16(id), sctp.PayloadTypeWebRTCBinary)
	if err != nil {
		return nil, err
	}
	set(stream)
	return stream, nil
}

func set(stream *sctp.Stream) {
	switch {
	case lifetime >= 0:
		stream.SetReliabilityParams(unordered, sctp.ReliabilityTypeTimed, uint32(lifetime))
	case retransmissions >= 0:
		stream.SetReliabilityParams(unordered, sctp.ReliabilityTypeRexmit, uint32(retransmissions))
	default:
		stream.SetReliabilityParams(unordered, sctp.ReliabilityTypeReliable, 0)
	}
}

func sendOne(association *sctp.Association, stream *sctp.Stream, message []byte) bool {
	for association.BufferedAmount() > mostBuffered {
		time.Sleep(200 * time.Microsecond)
		if isOver() {
			return false
		}
	}
	if _, err := stream.Write(message); err != nil {
		if !isOver() {
			problem(err)
		}
		return false
	}
	lock.Lock()
	sent.count(uint32(stream.StreamIdentifier()), message)
	lock.Unlock()
	return true
}

func isOver() bool {
	lock.Lock()
	defer lock.Unlock()
	return over
}

// read takes what comes on a stream. One that was both opened and accepted has one reader all the same, or two of
// its messages might be counted in the wrong order.
func read(association *sctp.Association, stream *sctp.Stream) {
	lock.Lock()
	isRead := readers[stream]
	readers[stream] = true
	lock.Unlock()
	if isRead {
		return
	}
	id := uint32(stream.StreamIdentifier())
	message := make([]byte, 1<<20)
	for {
		n, err := stream.Read(message)
		lock.Lock()
		if err != nil {
			if errors.Is(err, io.EOF) && !over && !wire.aborted && !wire.shutdown {
				resetsReceived++
			}
			lock.Unlock()
			return
		}
		received.check(id, message[:n], &size)
		lastData = time.Now()
		if receive >= 10 && received.messages%uint64(receive/10) == 0 {
			say(map[string]any{"event": "received", "messages": received.messages})
		}
		changed.Broadcast()
		lock.Unlock()
		if echo {
			sendOne(association, stream, message[:n])
		}
	}
}

// reset closes all streams once their messages are acknowledged. pion uses a stream again only when the peer has
// reset it, too, so this comes after the last message, not in the middle as with the others.
func reset(association *sctp.Association, of []*sctp.Stream) {
	for association.BufferedAmount() > 0 && !isOver() {
		time.Sleep(time.Millisecond)
	}
	for _, stream := range of {
		if err := stream.Close(); err != nil {
			problem(err)
			return
		}
		lock.Lock()
		resetsSent++
		lock.Unlock()
	}
	// pion does not say when the peer has agreed.
	time.Sleep(500 * time.Millisecond)
}

func sendAll(association *sctp.Association) {
	var of []*sctp.Stream
	for id := range streams {
		stream, err := open(association, id)
		if err != nil {
			problem(err)
			return
		}
		go read(association, stream)
		of = append(of, stream)
	}
	var message []byte
	begin := time.Now()
	for n := range send {
		if rate > 0 {
			time.Sleep(time.Until(begin.Add(time.Duration(float64(n) / rate * 1e9))))
		}
		message = size.fill(message, uint32(n%streams), uint32(n/streams))
		if int(n) == wrongByte {
			message[len(message)-1] ^= 1
		}
		if !sendOne(association, of[n%streams], message) {
			return
		}
	}
	if resetStreams {
		reset(association, of)
	}
}

func accept(association *sctp.Association) {
	for {
		stream, err := association.AcceptStream()
		if err != nil {
			lock.Lock()
			over = true
			changed.Broadcast()
			lock.Unlock()
			return
		}
		set(stream)
		go read(association, stream)
	}
}

func main() {
	parse()
	time.AfterFunc(time.Duration(timeout*1e9), func() {
		lock.Lock()
		end = "timeout"
		finish()
	})
	from := &net.UDPAddr{IP: net.ParseIP(local), Port: int(encapsulation)}
	udp, err := net.DialUDP("udp", from, &net.UDPAddr{IP: net.ParseIP(remote), Port: int(remoteEncapsulation)})
	if err != nil {
		fmt.Fprintln(os.Stderr, "pion-peer:", err)
		os.Exit(2)
	}
	wire = &conn{Conn: udp}
	options := []sctp.AssociationOption{
		sctp.WithNetConn(wire), sctp.WithMTU(uint32(mtu)), sctp.WithEnableInterleaving(interleaving),
		sctp.WithMaxMessageSize(1 << 20),
	}
	var association *sctp.Association
	if role == "listen" {
		say(map[string]any{"event": "listening"})
		var of []sctp.ServerOption
		for _, one := range options {
			of = append(of, one)
		}
		association, err = sctp.ServerWithOptions(of...)
	} else {
		var of []sctp.ClientOption
		for _, one := range options {
			of = append(of, one)
		}
		association, err = sctp.ClientWithOptions(of...)
	}
	if err != nil {
		problem(err)
		lock.Lock()
		finish()
	}
	lock.Lock()
	established, end = time.Now(), "lost"
	lock.Unlock()
	say(map[string]any{"event": "established"})
	go accept(association)
	sendAll(association)
	lock.Lock()
	for received.messages < uint64(receive) && !over {
		changed.Wait()
	}
	isDone := !over
	lock.Unlock()
	switch {
	case isDone && strings.HasPrefix(closing, "shutdown"):
		if err := association.Shutdown(context.Background()); err != nil {
			problem(err)
		}
	case isDone && closing == "abort":
		association.Abort("as told")
	default:
		lock.Lock()
		for !over {
			changed.Wait()
		}
		lock.Unlock()
	}
	time.Sleep(time.Duration(linger) * time.Millisecond)
	lock.Lock()
	switch {
	case wire.aborted:
		end = "aborted"
	case wire.shutdown:
		end = "shutdown"
	}
	finish()
}
