// quic-go as a server that sends back what comes on streams and in datagrams, or as a client. It does what lines
// of its standard input ask for, and says lines of JSON (../README.md).
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
)

var output sync.Mutex

// say says that something has happened.
func say(event string, more map[string]any) {
	said := map[string]any{"event": event}
	for name, value := range more {
		said[name] = value
	}
	line, _ := json.Marshal(said)
	output.Lock()
	defer output.Unlock()
	fmt.Println(string(line))
}

// newest is the connection that the lines are about, once there is one.
type newest struct {
	lock       sync.Mutex
	there      sync.Cond
	connection *quic.Conn
}

func (current *newest) set(connection *quic.Conn) {
	current.lock.Lock()
	defer current.lock.Unlock()
	current.connection = connection
	current.there.Broadcast()
}

func (current *newest) get() *quic.Conn {
	current.lock.Lock()
	defer current.lock.Unlock()
	for current.connection == nil {
		current.there.Wait()
	}
	return current.connection
}

func main() {
	words := map[string]string{}
	for _, word := range os.Args[2:] {
		name, value, _ := strings.Cut(word, "=")
		words[name] = value
	}
	address, err := net.ResolveUDPAddr("udp", words["own"])
	check(err)
	socket, err := net.ListenUDP("udp", address)
	check(err)
	// Another run of this program knows the tokens of one before.
	key := quic.StatelessResetKey{7}
	transport := &quic.Transport{Conn: socket, StatelessResetKey: &key}
	if words["retry"] != "" {
		transport.VerifySourceAddress = func(net.Addr) bool { return true }
	}
	config := &quic.Config{EnableDatagrams: true}
	current := &newest{}
	current.there.L = &current.lock
	if os.Args[1] == "listen" {
		listen(transport, words, config, current)
	} else {
		connect(transport, words, config, current)
	}
	if words["sink"] != "" {
		select {}
	}
	if words["upload"] != "" {
		size, err := strconv.Atoi(words["upload"])
		check(err)
		check(upload(current.get(), size))
		current.get().CloseWithError(0, "")
		transport.Close()
		return
	}
	obey(transport, current)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func listen(transport *quic.Transport, words map[string]string, config *quic.Config, current *newest) {
	pair, err := tls.LoadX509KeyPair(words["chain"], words["key"])
	check(err)
	own := &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"interop"}}
	listener, err := transport.Listen(own, config)
	check(err)
	say("listening", nil)
	go func() {
		for {
			connection, err := listener.Accept(context.Background())
			if err != nil {
				return
			}
			begin(connection, words["sink"] != "")
			go answerMessages(connection)
			current.set(connection)
		}
	}()
}

func connect(transport *quic.Transport, words map[string]string, config *quic.Config, current *newest) {
	chain, err := os.ReadFile(words["chain"])
	check(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(chain)
	remote, err := net.ResolveUDPAddr("udp", words["remote"])
	check(err)
	own := &tls.Config{RootCAs: roots, ServerName: "localhost", NextProtos: []string{"interop"}}
	connection, err := transport.Dial(context.Background(), remote, own, config)
	check(err)
	begin(connection, false)
	current.set(connection)
}

// upload writes so much on a stream, and waits until the server has read it to its end.
func upload(connection *quic.Conn, size int) error {
	stream, err := connection.OpenStreamSync(context.Background())
	if err != nil {
		return err
	}
	piece := make([]byte, 1<<16)
	for left := size; left > 0; left -= len(piece) {
		piece = piece[:min(len(piece), left)]
		if _, err := stream.Write(piece); err != nil {
			return err
		}
	}
	stream.Close()
	_, err = io.Copy(io.Discard, stream)
	return err
}

// begin says that a connection is open, and later that it has ended, and sends back what comes, or nothing of it
// if it is a sink.
func begin(connection *quic.Conn, isSink bool) {
	say("connected", nil)
	go func() {
		<-connection.Context().Done()
		err := context.Cause(connection.Context())
		var closed *quic.ApplicationError
		if errors.As(err, &closed) && closed.Remote {
			say("closed", map[string]any{"code": closed.ErrorCode})
		} else {
			say("closed", map[string]any{"why": err.Error()})
		}
	}()
	go func() {
		for {
			stream, err := connection.AcceptStream(context.Background())
			if err != nil {
				return
			}
			go func() {
				var back io.Writer = stream
				if isSink {
					back = io.Discard
				}
				if _, err := io.Copy(back, stream); err == nil {
					stream.Close()
				}
			}()
		}
	}()
}

func answerMessages(connection *quic.Conn) {
	for {
		message, err := connection.ReceiveDatagram(context.Background())
		if err != nil {
			return
		}
		connection.SendDatagram(message)
	}
}

// obey does what the lines of the standard input ask for, until it ends.
func obey(transport *quic.Transport, current *newest) {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		connection := current.get()
		switch words[0] {
		case "exchange":
			count, err := strconv.Atoi(words[1])
			check(err)
			size, err := strconv.Atoi(words[2])
			check(err)
			go exchangeAll(connection, count, size)
		case "datagram":
			message, err := hex.DecodeString(words[1])
			check(err)
			check(connection.SendDatagram(message))
			back, err := connection.ReceiveDatagram(context.Background())
			check(err)
			say("datagram", map[string]any{"data": hex.EncodeToString(back)})
		case "migrate":
			migrate(connection)
			say("migrated", nil)
		case "close":
			code, err := strconv.ParseUint(words[1], 10, 62)
			check(err)
			connection.CloseWithError(quic.ApplicationErrorCode(code), "")
			say("closing", nil)
		default:
			log.Fatalf("what is %q?", lines.Text())
		}
	}
	// The other end hears of it.
	transport.Close()
}

// migrate goes on at another port (RFC 9000 section 9).
func migrate(connection *quic.Conn) {
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	check(err)
	path, err := connection.AddPath(&quic.Transport{Conn: socket})
	check(err)
	limited, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	check(path.Probe(limited))
	check(path.Switch())
}

func exchangeAll(connection *quic.Conn, count, size int) {
	results := make(chan error)
	for at := range count {
		go func() { results <- exchange(connection, size+at) }()
	}
	for range count {
		if err := <-results; err != nil {
			say("failed", map[string]any{"why": err.Error()})
			return
		}
	}
	say("exchanged", nil)
}

// octet is number `at` of what a client writes.
func octet(at int) byte {
	word := (uint64(at)/8 + 1) * 0x9e3779b97f4a7c15
	return byte((word ^ word>>32) >> (8 * (uint64(at) % 8)))
}

// exchange writes so much on a stream, and compares what comes back.
func exchange(connection *quic.Conn, size int) error {
	stream, err := connection.OpenStreamSync(context.Background())
	if err != nil {
		return err
	}
	written := make(chan error, 1)
	go func() {
		piece := make([]byte, 1<<16)
		for at := 0; at < size; at += len(piece) {
			piece = piece[:min(len(piece), size-at)]
			for n := range piece {
				piece[n] = octet(at + n)
			}
			if _, err := stream.Write(piece); err != nil {
				written <- err
				return
			}
		}
		written <- stream.Close()
	}()
	piece, at := make([]byte, 1<<16), 0
	for {
		count, err := stream.Read(piece)
		for n := range count {
			if at+n >= size || piece[n] != octet(at+n) {
				return fmt.Errorf("octet %d of %d is wrong", at+n, size)
			}
		}
		at += count
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if at != size {
		return fmt.Errorf("%d of %d octets came back", at, size)
	}
	return <-written
}
