/* What every peer here sends and checks; the rules stand in README.md.
 *
 * A message of stream s and index i: s and i as 4 octets each, big-endian, then a sequence of octets that
 * follows from both. So a receiver knows each octet in advance, and sees what is lost, twice there or out of order.
 */
#ifndef PAYLOAD_H
#define PAYLOAD_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define GOLDEN 0x9E3779B97F4A7C15ull
#define HEADER 8u
#define MOST_STREAMS 1024u
#define MOST_MESSAGES (1u << 26)

static inline uint64_t mixed(uint64_t x) {
	x ^= x >> 32;
	x *= 0xD6E8FEB86659FD93ull;
	return x ^ (x >> 32);
}

static inline uint64_t key_of(uint32_t stream, uint32_t index) {
	return mixed(((uint64_t)stream << 32 | index) + GOLDEN);
}

/* Octets of a message, header included, for a size from `least` to `most`. */
static inline uint32_t size_of(uint32_t stream, uint32_t index, uint32_t least, uint32_t most) {
	return least + (uint32_t)(mixed(key_of(stream, index) ^ 0x5851F42D4C957F2Dull) % (most - least + 1));
}

/* Writes a message. */
static inline void fill(uint8_t *at, uint32_t size, uint32_t stream, uint32_t index) {
	for (int i = 0; i < 4; i++) {
		at[i] = (uint8_t)(stream >> (24 - 8 * i));
		at[4 + i] = (uint8_t)(index >> (24 - 8 * i));
	}
	uint64_t state = key_of(stream, index);
	uint32_t place = HEADER;
	for (; place < size; place += 8) {
		uint64_t word = mixed(state += GOLDEN);
		/* All machines that this runs on are little-endian. */
		memcpy(at + place, &word, size - place < 8 ? size - place : 8);
	}
}

/* One direction of one stream. */
struct stream {
	uint32_t messages;
	uint32_t next; /* one more than the highest index so far */
	uint64_t digest;
	uint8_t *seen; /* a bit for each index */
	uint32_t room; /* octets of `seen` */
};

/* One direction of the association. */
struct flow {
	uint64_t messages, bytes, corrupt, misplaced, duplicates, out_of_order;
	struct stream streams[MOST_STREAMS];
};

static inline uint64_t hash_of(const uint8_t *at, uint32_t size) {
	uint64_t sum = size * GOLDEN;
	for (uint32_t place = 0; place < size; place += 8) {
		uint64_t word = 0;
		memcpy(&word, at + place, size - place < 8 ? size - place : 8);
		sum += word;
	}
	return mixed(sum);
}

/* Counts a message that was sent or received on a stream. */
static inline void count(struct flow *flow, uint32_t sid, const uint8_t *at, uint32_t size) {
	flow->messages++;
	flow->bytes += size;
	if (sid < MOST_STREAMS) {
		flow->streams[sid].messages++;
		flow->streams[sid].digest += hash_of(at, size);
	}
}

/* Counts and checks a message that was received. `expected` has room for `size` octets. */
static inline void check(struct flow *flow, uint32_t sid, const uint8_t *at, uint32_t size, uint32_t least,
			 uint32_t most, uint8_t *expected) {
	count(flow, sid, at, size);
	if (size < HEADER || sid >= MOST_STREAMS) {
		flow->corrupt++;
		return;
	}
	uint32_t stream = 0, index = 0;
	for (int i = 0; i < 4; i++) {
		stream = stream << 8 | at[i];
		index = index << 8 | at[4 + i];
	}
	if (stream != sid)
		flow->misplaced++;
	fill(expected, size, stream, index);
	if (size != size_of(stream, index, least, most) || memcmp(at, expected, size) != 0 || index >= MOST_MESSAGES) {
		flow->corrupt++;
		return;
	}
	struct stream *one = &flow->streams[sid];
	if (index / 8 >= one->room) {
		uint32_t room = index / 4 + 4096;
		one->seen = realloc(one->seen, room);
		memset(one->seen + one->room, 0, room - one->room);
		one->room = room;
	}
	if (one->seen[index / 8] & 1 << index % 8)
		flow->duplicates++;
	else if (index < one->next)
		flow->out_of_order++;
	one->seen[index / 8] |= (uint8_t)(1 << index % 8);
	if (index >= one->next)
		one->next = index + 1;
}

static inline double now_s(void) {
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static inline double cpu_s(void) {
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

/* The fields of one direction, with a comma at the end. */
static inline void print_flow(const char *name, const struct flow *flow) {
	printf("\"%s_messages\": %llu, \"%s_bytes\": %llu, \"%s_digests\": {", name, (unsigned long long)flow->messages,
	       name, (unsigned long long)flow->bytes, name);
	const char *comma = "";
	for (uint32_t sid = 0; sid < MOST_STREAMS; sid++) {
		if (flow->streams[sid].messages) {
			printf("%s\"%u\": \"%016llx\"", comma, sid, (unsigned long long)flow->streams[sid].digest);
			comma = ", ";
		}
	}
	printf("}, ");
}

#endif
