// TCP of gVisor's netstack over a TUN device, with the command line of the other peers: README.md.
//
// Besides: --tun NAME, a device that is there already or is made (root), with an address of its own on the kernel's
// side; --congestion reno|cubic; --recovery rack|none; --no-sack; --buffer OCTETS. There is one stream, so messages follow
// each other without anything between them: their sizes are known. With --octets, --send and --receive are octets of
// the pattern of stream_peer, and what it prints is what kernel_stream_peer.py prints.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/fdbased"
	"gvisor.dev/gvisor/pkg/tcpip/link/tun"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
)

var (
	role, local, remote, device, congestion, recovery, closing string
	port, remotePort, send, receive, buffer, mtu, streams      uint
	rate, timeout                                              float64
	noSack, inOctets                                           bool
	wrongByte                                                  int
	size                                                       = sizes{1000, 1000}

	lock                  sync.Mutex
	changed               = sync.NewCond(&lock)
	sent, received        = newFlow(), newFlow()
	established, lastData time.Time
	problems              = []string{}
	over                  bool
	end                   = "refused"
	netstack              *stack.Stack
)

func say(event map[string]any) {
	text, _ := json.Marshal(event)
	fmt.Println(string(text))
}

func problem(err error) {
	lock.Lock()
	defer lock.Unlock()
	problems = append(problems, err.Error())
}

// finish prints the result and ends the process. The caller holds the lock.
func finish() {
	all := map[string]any{"peer": "gvisor", "role": role, "end": end, "established": !established.IsZero()}
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
	for _, name := range []string{"abandoned", "resets_sent", "resets_received", "resets_failed"} {
		all[name] = 0
	}
	all["path_events"], all["errors"] = []string{}, problems
	all["wall_s"], all["data_s"] = since(time.Now()), since(lastData)
	all["cpu_s"] = float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
	if netstack != nil {
		stats := netstack.Stats().TCP
		all["retransmitted"], all["timeouts"] = stats.Retransmits.Value(), stats.Timeouts.Value()
		all["checksum_errors"] = stats.ChecksumErrors.Value()
	}
	say(all)
	if established.IsZero() || end == "timeout" {
		os.Exit(1)
	}
	os.Exit(0)
}

func parse() {
	flags := flag.NewFlagSet("gvisor-peer", flag.ExitOnError)
	flags.StringVar(&local, "local", "", "")
	flags.StringVar(&remote, "remote", "", "")
	flags.StringVar(&device, "tun", "", "")
	flags.StringVar(&congestion, "congestion", "cubic", "")
	flags.StringVar(&recovery, "recovery", "rack", "")
	flags.StringVar(&closing, "close", "wait", "")
	flags.UintVar(&port, "port", 5000, "")
	flags.UintVar(&remotePort, "remote-port", 5000, "")
	flags.UintVar(&send, "send", 0, "")
	flags.UintVar(&receive, "receive", 0, "")
	flags.UintVar(&buffer, "buffer", 4<<20, "")
	flags.UintVar(&mtu, "mtu", 1500, "")
	flags.Var(&size, "size", "")
	flags.Float64Var(&rate, "rate", 0, "")
	flags.Float64Var(&timeout, "timeout", 60, "")
	flags.BoolVar(&noSack, "no-sack", false, "")
	flags.BoolVar(&inOctets, "octets", false, "")
	flags.UintVar(&streams, "streams", 1, "there is one")
	flags.IntVar(&wrongByte, "wrong-byte", -1, "")
	if len(os.Args) < 2 || (os.Args[1] != "listen" && os.Args[1] != "connect") {
		fmt.Fprintln(os.Stderr, "usage: gvisor-peer listen|connect --tun NAME OPTIONS (README.md)")
		os.Exit(2)
	}
	role = os.Args[1]
	_ = flags.Parse(os.Args[2:])
	if closing != "wait" && closing != "shutdown" {
		fmt.Fprintln(os.Stderr, "gvisor-peer: --close is wait or shutdown")
		os.Exit(2)
	}
}

func set(option tcpip.SettableTransportProtocolOption) error {
	if err := netstack.SetTransportProtocolOption(tcp.ProtocolNumber, option); err != nil {
		return fmt.Errorf("%T: %s", option, err)
	}
	return nil
}

// open makes a network stack with one interface, the TUN device.
func open() error {
	file, err := tun.Open(device)
	if err != nil {
		return fmt.Errorf("the TUN device %s cannot be opened: %w", device, err)
	}
	link, err := fdbased.New(&fdbased.Options{FDs: []int{file}, MTU: uint32(mtu)})
	if err != nil {
		return err
	}
	netstack = stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol},
	})
	control := tcpip.CongestionControlOption(congestion)
	repair := tcpip.TCPRecovery(0)
	if recovery == "rack" {
		repair = tcpip.TCPRACKLossDetection
	}
	sack := tcpip.TCPSACKEnabled(!noSack)
	in := tcpip.TCPReceiveBufferSizeRangeOption{Min: 4096, Default: int(buffer), Max: int(buffer)}
	out := tcpip.TCPSendBufferSizeRangeOption{Min: 4096, Default: int(buffer), Max: int(buffer)}
	for _, option := range []tcpip.SettableTransportProtocolOption{&control, &repair, &sack, &in, &out} {
		if err := set(option); err != nil {
			return err
		}
	}
	if err := netstack.CreateNIC(1, link); err != nil {
		return errors.New(err.String())
	}
	own := tcpip.ProtocolAddress{Protocol: ipv4.ProtocolNumber, AddressWithPrefix: address(local).WithPrefix()}
	if err := netstack.AddProtocolAddress(1, own, stack.AddressProperties{}); err != nil {
		return errors.New(err.String())
	}
	netstack.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: 1}})
	return nil
}

func address(text string) tcpip.Address {
	return tcpip.AddrFrom4Slice(net.ParseIP(text).To4())
}

func connect() (*gonet.TCPConn, error) {
	if role == "connect" {
		to := tcpip.FullAddress{NIC: 1, Addr: address(remote), Port: uint16(remotePort)}
		return gonet.DialTCP(netstack, to, ipv4.ProtocolNumber)
	}
	at := tcpip.FullAddress{NIC: 1, Addr: address(local), Port: uint16(port)}
	listener, err := gonet.ListenTCP(netstack, at, ipv4.ProtocolNumber)
	if err != nil {
		return nil, err
	}
	say(map[string]any{"event": "listening"})
	connection, err := listener.Accept()
	if err != nil {
		return nil, err
	}
	return connection.(*gonet.TCPConn), nil
}

// sendAll sends, and ends the connection if that is to be done here and all is received.
func sendAll(connection *gonet.TCPConn) {
	var message []byte
	for n := range send {
		if rate > 0 {
			time.Sleep(time.Until(established.Add(time.Duration(float64(n) / rate * 1e9))))
		}
		message = size.fill(message, 0, uint32(n))
		if int(n) == wrongByte {
			message[len(message)-1] ^= 1
		}
		if _, err := connection.Write(message); err != nil {
			problem(err)
			return
		}
		lock.Lock()
		sent.count(0, message)
		lock.Unlock()
	}
	lock.Lock()
	for received.messages < uint64(receive) && !over {
		changed.Wait()
	}
	lock.Unlock()
	if closing == "shutdown" {
		if err := connection.CloseWrite(); err != nil {
			problem(err)
		}
	}
}

func receiveAll(connection *gonet.TCPConn) {
	var waiting []byte
	some := make([]byte, 1<<18)
	index := uint32(0)
	for {
		n, err := connection.Read(some)
		lock.Lock()
		waiting = append(waiting, some[:n]...)
		for length := size.of(0, index); length <= len(waiting); length = size.of(0, index) {
			received.check(0, waiting[:length], &size)
			waiting = waiting[length:]
			index++
			lastData = time.Now()
			if receive >= 10 && received.messages%uint64(receive/10) == 0 {
				say(map[string]any{"event": "received", "messages": received.messages})
			}
		}
		if err != nil {
			over = true
			end = "shutdown"
			if !errors.Is(err, io.EOF) {
				end = "aborted"
				problems = append(problems, err.Error())
			}
			if len(waiting) > 0 {
				problems = append(problems, fmt.Sprintf("%d octets of a message without its end", len(waiting)))
			}
		}
		changed.Broadcast()
		lock.Unlock()
		if err != nil {
			return
		}
	}
}

func main() {
	parse()
	time.AfterFunc(time.Duration(timeout*1e9), func() {
		lock.Lock()
		end = "timeout"
		finish()
	})
	if err := open(); err != nil {
		fmt.Fprintln(os.Stderr, "gvisor-peer:", err)
		os.Exit(2)
	}
	connection, err := connect()
	if err != nil {
		problem(err)
		lock.Lock()
		finish()
	}
	lock.Lock()
	established, end = time.Now(), "lost"
	lock.Unlock()
	say(map[string]any{"event": "established"})
	if inOctets {
		say(exchangeOctets(connection))
		// The end of the stream is sent again for as long as it is lost, until somebody stops this.
		select {}
	}
	done := make(chan struct{})
	go func() {
		sendAll(connection)
		close(done)
	}()
	receiveAll(connection)
	<-done
	_ = connection.CloseWrite()
	// The last packets leave, and are sent again if they are lost.
	time.Sleep(500 * time.Millisecond)
	lock.Lock()
	finish()
}
