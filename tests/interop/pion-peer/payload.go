package main

// What every peer sends and checks, as in payload.h; the rules stand in README.md.

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

const (
	golden       uint64 = 0x9E3779B97F4A7C15
	headerOctets        = 8
)

// sizes are the least and the most octets of a message.
type sizes struct{ least, most int }

// Set reads `8-1000`, or `1000` for messages of one size.
func (s *sizes) Set(text string) error {
	least, most, isRange := strings.Cut(text, "-")
	if !isRange {
		most = least
	}
	var err error
	if s.least, err = strconv.Atoi(least); err != nil {
		return err
	}
	if s.most, err = strconv.Atoi(most); err != nil {
		return err
	}
	if s.least < headerOctets || s.most < s.least {
		return fmt.Errorf("must be at least %d, and rise", headerOctets)
	}
	return nil
}

func (s *sizes) String() string { return fmt.Sprintf("%d-%d", s.least, s.most) }

func mixed(x uint64) uint64 {
	x ^= x >> 32
	x *= 0xD6E8FEB86659FD93
	return x ^ x>>32
}

func key(stream, index uint32) uint64 {
	return mixed((uint64(stream)<<32 | uint64(index)) + golden)
}

func (s *sizes) of(stream, index uint32) int {
	return s.least + int(mixed(key(stream, index)^0x5851F42D4C957F2D)%uint64(s.most-s.least+1))
}

// fill writes a message into `to`, which is made longer where it must be.
func (s *sizes) fill(to []byte, stream, index uint32) []byte {
	size := s.of(stream, index)
	if cap(to) < size+8 {
		to = make([]byte, size+8)
	}
	to = to[:size+8]
	binary.BigEndian.PutUint32(to, stream)
	binary.BigEndian.PutUint32(to[4:], index)
	state := key(stream, index)
	for place := headerOctets; place < size; place += 8 {
		state += golden
		binary.LittleEndian.PutUint64(to[place:], mixed(state))
	}
	return to[:size]
}

func hash(message []byte) uint64 {
	sum := uint64(len(message)) * golden
	for ; len(message) >= 8; message = message[8:] {
		sum += binary.LittleEndian.Uint64(message)
	}
	var last [8]byte
	copy(last[:], message)
	return mixed(sum + binary.LittleEndian.Uint64(last[:]))
}

// flow is one direction of an association.
type flow struct {
	messages, bytes, corrupt, misplaced, duplicates, outOfOrder uint64
	digests                                                     map[uint32]uint64
	seen                                                        map[uint32][]bool
	expected                                                    []byte
}

func newFlow() *flow {
	return &flow{digests: map[uint32]uint64{}, seen: map[uint32][]bool{}}
}

func (f *flow) count(stream uint32, message []byte) {
	f.messages++
	f.bytes += uint64(len(message))
	f.digests[stream] += hash(message)
}

// check counts a message that was received, and compares every octet with what it must be.
func (f *flow) check(on uint32, message []byte, s *sizes) {
	f.count(on, message)
	if len(message) < headerOctets {
		f.corrupt++
		return
	}
	stream, index := binary.BigEndian.Uint32(message), binary.BigEndian.Uint32(message[4:])
	if stream != on {
		f.misplaced++
	}
	f.expected = s.fill(f.expected, stream, index)
	if !bytes.Equal(f.expected, message) || index >= 1<<26 {
		f.corrupt++
		return
	}
	seen := f.seen[on]
	if int(index) < len(seen) {
		if seen[index] {
			f.duplicates++
		} else {
			f.outOfOrder++
		}
	} else {
		seen = append(seen, make([]bool, int(index)+1-len(seen))...)
		f.seen[on] = seen
	}
	seen[index] = true
}

// report adds what was counted, and what was wrong if it was received.
func (f *flow) report(name string, to map[string]any) {
	digests := map[string]string{}
	for stream, digest := range f.digests {
		digests[strconv.Itoa(int(stream))] = fmt.Sprintf("%016x", digest)
	}
	to[name+"_messages"], to[name+"_bytes"], to[name+"_digests"] = f.messages, f.bytes, digests
	if name == "received" {
		to["corrupt"], to["misplaced"] = f.corrupt, f.misplaced
		to["duplicates"], to["out_of_order"] = f.duplicates, f.outOfOrder
	}
}
