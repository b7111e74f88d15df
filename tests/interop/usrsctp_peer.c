#define _GNU_SOURCE
/* A peer on libusrsctp: the full one, and the only one that is multi-homed or speaks raw IP.
 * Command line, payload and the JSON at the end: README.md.
 *
 * One thread sends, one receives, a third ends all when time is up; usrsctp has threads of its own for packets and
 * timers. The library's calls block.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <unistd.h>
#include <usrsctp.h>

#include "payload.h"

/* In the library's own netinet/sctp.h, which is not installed. */
#ifndef SCTP_INTERLEAVING_SUPPORTED
#define SCTP_INTERLEAVING_SUPPORTED 0x00001206
#endif

#define MOST_SIZE (1u << 20)
#define MOST_ADDRESSES 8
#define MOST_NOTES 64

static struct {
	const char *role, *close;
	struct sockaddr_in local[MOST_ADDRESSES], remote[MOST_ADDRESSES];
	int locals, remotes;
	uint16_t port, remote_port, encapsulation, remote_encapsulation;
	uint32_t send, receive, least, most, streams, retransmissions, lifetime, mtu, rto_min, heartbeat, path_max_retrans,
		linger;
	int64_t wrong_byte;
	double rate, timeout;
	bool unordered, has_retransmissions, has_lifetime, interleaving, nr_sack, reset_streams, echo;
} want = {
	.close = "wait", .port = 5000, .remote_port = 5000, .least = 1000, .most = 1000, .streams = 1, .mtu = 1200,
	.wrong_byte = -1, .timeout = 60, .linger = 200,
};

static struct flow sent, received;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static volatile bool is_established, is_over;
static const char *end = "refused";
static uint32_t resets_sent, resets_received, resets_failed, abandoned;
static char *notes[MOST_NOTES], *errors[MOST_NOTES];
static int note_count, error_count;
static double established_s, last_data_s;
static struct socket *sock;

static void say(char **list, int *length, const char *format, ...) {
	va_list words;
	va_start(words, format);
	if (*length < MOST_NOTES && vasprintf(&list[*length], format, words) >= 0)
		++*length;
	va_end(words);
}

static void print_list(const char *name, char **list, int length) {
	printf("\"%s\": [", name);
	for (int i = 0; i < length; i++)
		printf("%s\"%s\"", i ? ", " : "", list[i]);
	printf("], ");
}

/* Prints the result and ends the process. The caller holds the lock. */
static void finish(void) {
	double now = now_s();
	printf("{\"peer\": \"usrsctp\", \"role\": \"%s\", \"end\": \"%s\", \"established\": %s, ", want.role, end,
	       is_established ? "true" : "false");
	print_flow("sent", &sent);
	print_flow("received", &received);
	printf("\"corrupt\": %llu, \"misplaced\": %llu, \"duplicates\": %llu, \"out_of_order\": %llu, ",
	       (unsigned long long)received.corrupt, (unsigned long long)received.misplaced,
	       (unsigned long long)received.duplicates, (unsigned long long)received.out_of_order);
	printf("\"abandoned\": %u, \"resets_sent\": %u, \"resets_received\": %u, \"resets_failed\": %u, ", abandoned,
	       resets_sent, resets_received, resets_failed);
	print_list("path_events", notes, note_count);
	print_list("errors", errors, error_count);
	struct sctpstat stat;
	usrsctp_get_stat(&stat);
	printf("\"retransmitted\": %u, \"timeouts\": %u, \"checksum_errors\": %u, ", stat.sctps_sendretransdata,
	       stat.sctps_timodata, stat.sctps_badsum + stat.sctps_checksumerrors);
	printf("\"wall_s\": %.6f, \"data_s\": %.6f, \"cpu_s\": %.6f}\n", is_established ? now - established_s : 0.0,
	       last_data_s > 0 ? last_data_s - established_s : 0.0, cpu_s());
	fflush(stdout);
	_exit(is_established && strcmp(end, "timeout") != 0 ? 0 : 1);
}

static void die(const char *what) {
	pthread_mutex_lock(&lock);
	say(errors, &error_count, "%s: %s", what, strerror(errno));
	finish();
}

static void *watch(void *unused) {
	usleep((useconds_t)(want.timeout * 1e6));
	pthread_mutex_lock(&lock);
	end = "timeout";
	finish();
	return unused;
}

static void event(const char *name) {
	printf("{\"event\": \"%s\"}\n", name);
	fflush(stdout);
}

static void addresses(char *list, struct sockaddr_in *to, int *length) {
	for (char *word = strtok(list, ","); word && *length < MOST_ADDRESSES; word = strtok(NULL, ",")) {
		to[*length].sin_family = AF_INET;
		if (inet_pton(AF_INET, word, &to[(*length)++].sin_addr) != 1) {
			fprintf(stderr, "usrsctp_peer: `%s` is no IPv4 address\n", word);
			exit(2);
		}
	}
}

/* The value of an option that takes one. */
static uint32_t number(const char *name, const char *value) {
	char *rest;
	unsigned long known = strtoul(value, &rest, 10);
	if (*value == 0 || *rest != 0 || known > UINT32_MAX) {
		fprintf(stderr, "usrsctp_peer: %s is `%s`, but must be a whole number\n", name, value);
		exit(2);
	}
	return (uint32_t)known;
}

static void parse(int count, char **words) {
	if (count < 2 || (strcmp(words[1], "listen") != 0 && strcmp(words[1], "connect") != 0)) {
		fprintf(stderr, "usage: usrsctp_peer listen|connect OPTIONS (README.md)\n");
		exit(2);
	}
	want.role = words[1];
	for (int i = 2; i < count; i++) {
		const char *name = words[i];
#define FLAG(text, field) if (strcmp(name, text) == 0) { want.field = true; continue; }
		FLAG("--unordered", unordered)
		FLAG("--interleaving", interleaving)
		FLAG("--nr-sack", nr_sack)
		FLAG("--reset-streams", reset_streams)
		FLAG("--echo", echo)
		if (++i == count) {
			fprintf(stderr, "usrsctp_peer: %s is no option, or lacks its value\n", name);
			exit(2);
		}
		char *value = words[i];
#define NUMBER(text, field) if (strcmp(name, text) == 0) { want.field = number(name, value); continue; }
		NUMBER("--port", port)
		NUMBER("--remote-port", remote_port)
		NUMBER("--encapsulation", encapsulation)
		NUMBER("--remote-encapsulation", remote_encapsulation)
		NUMBER("--send", send)
		NUMBER("--receive", receive)
		NUMBER("--streams", streams)
		NUMBER("--mtu", mtu)
		NUMBER("--rto-min", rto_min)
		NUMBER("--heartbeat", heartbeat)
		NUMBER("--path-max-retrans", path_max_retrans)
		NUMBER("--rate", rate)
		NUMBER("--timeout", timeout)
		NUMBER("--wrong-byte", wrong_byte)
		NUMBER("--linger", linger)
		if (strcmp(name, "--retransmissions") == 0) {
			want.retransmissions = number(name, value);
			want.has_retransmissions = true;
		} else if (strcmp(name, "--lifetime") == 0) {
			want.lifetime = number(name, value);
			want.has_lifetime = true;
		} else if (strcmp(name, "--local") == 0) {
			addresses(value, want.local, &want.locals);
		} else if (strcmp(name, "--remote") == 0) {
			addresses(value, want.remote, &want.remotes);
		} else if (strcmp(name, "--close") == 0) {
			want.close = value;
		} else if (strcmp(name, "--size") == 0) {
			char *most = strchr(value, '-');
			if (most)
				*most++ = 0;
			want.least = number(name, value);
			want.most = most ? number(name, most) : want.least;
		} else {
			fprintf(stderr, "usrsctp_peer: %s is no option\n", name);
			exit(2);
		}
	}
	if (want.least < HEADER || want.most < want.least || want.most > MOST_SIZE || want.streams < 1 ||
	    want.streams > MOST_STREAMS || want.locals == 0) {
		fprintf(stderr, "usrsctp_peer: sizes, streams or addresses out of range (README.md)\n");
		exit(2);
	}
	for (int i = 0; i < want.locals; i++)
		want.local[i].sin_port = htons(want.port);
	for (int i = 0; i < want.remotes; i++)
		want.remote[i].sin_port = htons(want.remote_port);
}

static void set(struct socket *on, int option, const void *value, socklen_t length, const char *what) {
	if (usrsctp_setsockopt(on, IPPROTO_SCTP, option, value, length) != 0)
		die(what);
}

/* What is to be set before an association begins. */
static void configure(struct socket *on) {
	static const uint16_t events[] = { SCTP_ASSOC_CHANGE, SCTP_PEER_ADDR_CHANGE, SCTP_REMOTE_ERROR,
					   SCTP_SHUTDOWN_EVENT, SCTP_STREAM_RESET_EVENT, SCTP_SEND_FAILED_EVENT };
	for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
		struct sctp_event one = { .se_assoc_id = SCTP_FUTURE_ASSOC, .se_type = events[i], .se_on = 1 };
		set(on, SCTP_EVENT, &one, sizeof one, "SCTP_EVENT");
	}
	int yes = 1;
	set(on, SCTP_NODELAY, &yes, sizeof yes, "SCTP_NODELAY");
	set(on, SCTP_RECVRCVINFO, &yes, sizeof yes, "SCTP_RECVRCVINFO");
	struct sctp_initmsg init = { .sinit_num_ostreams = (uint16_t)want.streams, .sinit_max_instreams = MOST_STREAMS };
	set(on, SCTP_INITMSG, &init, sizeof init, "SCTP_INITMSG");
	struct sctp_assoc_value resets = { SCTP_FUTURE_ASSOC, SCTP_ENABLE_RESET_STREAM_REQ };
	set(on, SCTP_ENABLE_STREAM_RESET, &resets, sizeof resets, "SCTP_ENABLE_STREAM_RESET");
	/* 20 octets of IPv4 and 8 of UDP. */
	struct sctp_paddrparams path = { .spp_assoc_id = SCTP_FUTURE_ASSOC, .spp_flags = SPP_PMTUD_DISABLE,
					 .spp_pathmtu = want.mtu + (want.encapsulation ? 28 : 20),
					 .spp_hbinterval = want.heartbeat,
					 .spp_pathmaxrxt = (uint16_t)want.path_max_retrans };
	path.spp_address.ss_family = AF_INET;
	path.spp_flags |= want.heartbeat ? SPP_HB_ENABLE : 0;
	set(on, SCTP_PEER_ADDR_PARAMS, &path, sizeof path, "SCTP_PEER_ADDR_PARAMS");
	if (want.remote_encapsulation) {
		struct sctp_udpencaps over = { .sue_port = htons(want.remote_encapsulation) };
		over.sue_address.ss_family = AF_INET;
		set(on, SCTP_REMOTE_UDP_ENCAPS_PORT, &over, sizeof over, "SCTP_REMOTE_UDP_ENCAPS_PORT");
	}
	if (want.interleaving) {
		/* RFC 8260 needs an application that takes parts of several messages in turn. */
		int level = 2;
		set(on, SCTP_FRAGMENT_INTERLEAVE, &level, sizeof level, "SCTP_FRAGMENT_INTERLEAVE");
		struct sctp_assoc_value on_off = { SCTP_FUTURE_ASSOC, 1 };
		set(on, SCTP_INTERLEAVING_SUPPORTED, &on_off, sizeof on_off, "SCTP_INTERLEAVING_SUPPORTED");
	}
}

/* Packs addresses as bindx and connectx take them. */
static const struct sockaddr *packed(struct sockaddr_in *list) { return (const struct sockaddr *)list; }

static void establish(void) {
	sock = usrsctp_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
	if (!sock)
		die("socket");
	configure(sock);
	if (usrsctp_bindx(sock, (struct sockaddr *)want.local, want.locals, SCTP_BINDX_ADD_ADDR) != 0)
		die("bindx");
	if (strcmp(want.role, "listen") == 0) {
		if (usrsctp_listen(sock, 1) != 0)
			die("listen");
		event("listening");
		struct socket *taken = usrsctp_accept(sock, NULL, NULL);
		if (!taken)
			die("accept");
		sock = taken;
	} else if (usrsctp_connectx(sock, packed(want.remote), want.remotes, NULL) != 0) {
		die("connectx");
	}
	if (want.nr_sack) {
		struct sctp_assoc_value agreed = { SCTP_FUTURE_ASSOC, 0 };
		socklen_t size = sizeof agreed;
		if (usrsctp_getsockopt(sock, IPPROTO_SCTP, SCTP_NRSACK_SUPPORTED, &agreed, &size) != 0)
			die("SCTP_NRSACK_SUPPORTED");
		if (!agreed.assoc_value) {
			fprintf(stderr, "usrsctp_peer: NR-SACK was not agreed on\n");
			exit(1);
		}
	}
	is_established = true;
	established_s = now_s();
	end = "lost";
	event("established");
}

static void notified(const union sctp_notification *note) {
	char text[INET6_ADDRSTRLEN] = "?";
	switch (note->sn_header.sn_type) {
	case SCTP_ASSOC_CHANGE:
		if (note->sn_assoc_change.sac_state == SCTP_SHUTDOWN_COMP)
			end = "shutdown";
		else if (note->sn_assoc_change.sac_state == SCTP_COMM_LOST)
			end = note->sn_header.sn_length > sizeof note->sn_assoc_change ? "aborted" : "lost";
		else
			break;
		is_over = true;
		break;
	case SCTP_PEER_ADDR_CHANGE: {
		static const char *const states[] = { "?", "available", "unreachable", "removed", "added", "primary",
						      "confirmed" };
		const struct sctp_paddr_change *change = &note->sn_paddr_change;
		inet_ntop(AF_INET, &((const struct sockaddr_in *)&change->spc_aaddr)->sin_addr, text, sizeof text);
		say(notes, &note_count, "%.3f %s %s", now_s() - established_s, text,
		    states[change->spc_state <= 6 ? change->spc_state : 0]);
		break;
	}
	case SCTP_STREAM_RESET_EVENT: {
		const struct sctp_stream_reset_event *reset = &note->sn_strreset_event;
		uint32_t streams = (reset->strreset_length - (uint32_t)sizeof *reset) / 2;
		if (reset->strreset_flags & (SCTP_STREAM_RESET_DENIED | SCTP_STREAM_RESET_FAILED))
			resets_failed++;
		else if (reset->strreset_flags & SCTP_STREAM_RESET_OUTGOING_SSN)
			resets_sent += streams ? streams : want.streams;
		else
			resets_received += streams ? streams : want.streams;
		break;
	}
	case SCTP_SEND_FAILED_EVENT:
		abandoned++;
		break;
	case SCTP_REMOTE_ERROR:
		say(errors, &error_count, "the peer reported error cause %u", ntohs(note->sn_remote_error.sre_error));
		break;
	case SCTP_SHUTDOWN_EVENT:
		end = "shutdown";
		break;
	}
}

static void send_one(uint32_t sid, const uint8_t *message, uint32_t size) {
	struct sctp_sendv_spa how = { .sendv_flags = SCTP_SEND_SNDINFO_VALID };
	how.sendv_sndinfo.snd_sid = (uint16_t)sid;
	how.sendv_sndinfo.snd_ppid = htonl(53);
	how.sendv_sndinfo.snd_flags = want.unordered ? SCTP_UNORDERED : 0;
	if (want.has_lifetime || want.has_retransmissions) {
		how.sendv_flags |= SCTP_SEND_PRINFO_VALID;
		how.sendv_prinfo.pr_policy = want.has_lifetime ? SCTP_PR_SCTP_TTL : SCTP_PR_SCTP_RTX;
		how.sendv_prinfo.pr_value = want.has_lifetime ? want.lifetime : want.retransmissions;
	}
	ssize_t took = usrsctp_sendv(sock, message, size, NULL, 0, &how, sizeof how, SCTP_SENDV_SPA, 0);
	if (took != (ssize_t)size) {
		/* The association is gone; the notification says why. */
		if (!is_over && errno != EPIPE && errno != ECONNRESET && errno != ENOTCONN)
			die("sendv");
		is_over = true;
		return;
	}
	pthread_mutex_lock(&lock);
	count(&sent, sid, message, size);
	pthread_mutex_unlock(&lock);
}

static void *receive(void *unused) {
	/* A long message may come in parts, those of several streams in turn. */
	static struct { uint8_t *data; uint32_t length; } parts[MOST_STREAMS];
	static uint8_t expected[MOST_SIZE], chunk[MOST_SIZE];
	for (;;) {
		struct sctp_rcvinfo info;
		struct sockaddr_in from;
		socklen_t from_length = sizeof from, info_length = sizeof info;
		unsigned int info_type = 0;
		int flags = 0;
		ssize_t got = usrsctp_recvv(sock, chunk, sizeof chunk, (struct sockaddr *)&from, &from_length, &info,
					    &info_length, &info_type, &flags);
		pthread_mutex_lock(&lock);
		if (got <= 0)
			is_over = true;
		if (got > 0 && flags & MSG_NOTIFICATION)
			notified((const union sctp_notification *)chunk);
		pthread_cond_broadcast(&changed);
		bool is_data = got > 0 && !(flags & MSG_NOTIFICATION) && info_type == SCTP_RECVV_RCVINFO;
		uint32_t sid = is_data ? info.rcv_sid : 0;
		if (is_data && sid < MOST_STREAMS) {
			if (!parts[sid].data)
				parts[sid].data = malloc(MOST_SIZE);
			uint32_t length = parts[sid].length;
			uint32_t fits = (uint32_t)got < MOST_SIZE - length ? (uint32_t)got : MOST_SIZE - length;
			memcpy(parts[sid].data + length, chunk, fits);
			parts[sid].length += fits;
			if (flags & MSG_EOR) {
				check(&received, sid, parts[sid].data, parts[sid].length, want.least, want.most, expected);
				last_data_s = now_s();
				if (want.receive >= 10 && received.messages % (want.receive / 10) == 0) {
					printf("{\"event\": \"received\", \"messages\": %llu}\n",
					       (unsigned long long)received.messages);
					fflush(stdout);
				}
			}
		}
		bool is_end = is_over;
		pthread_mutex_unlock(&lock);
		if (is_data && flags & MSG_EOR && sid < MOST_STREAMS) {
			if (want.echo)
				send_one(sid, parts[sid].data, parts[sid].length);
			parts[sid].length = 0;
		}
		if (is_end)
			return unused;
	}
}

/* Resets all outgoing streams once what was sent is acknowledged, and waits until that is done. */
static void reset_streams(void) {
	size_t length = sizeof(struct sctp_reset_streams) + want.streams * sizeof(uint16_t);
	struct sctp_reset_streams *ask = calloc(1, length);
	ask->srs_flags = SCTP_STREAM_RESET_OUTGOING;
	ask->srs_number_streams = (uint16_t)want.streams;
	for (uint32_t sid = 0; sid < want.streams; sid++)
		ask->srs_stream_list[sid] = (uint16_t)sid;
	/* connectx does not wait, and messages may leave before the association is open. */
	struct sctp_status status = { 0 };
	while (status.sstat_state != SCTP_ESTABLISHED) {
		socklen_t size = sizeof status;
		if (usrsctp_getsockopt(sock, IPPROTO_SCTP, SCTP_STATUS, &status, &size) != 0)
			die("SCTP_STATUS");
		usleep(1000);
	}
	/* EAGAIN and EALREADY: another reset is on its way. */
	while (usrsctp_setsockopt(sock, IPPROTO_SCTP, SCTP_RESET_STREAMS, ask, (socklen_t)length) != 0) {
		if (errno != EAGAIN && errno != EALREADY)
			die("SCTP_RESET_STREAMS");
		usleep(1000);
	}
	free(ask);
	pthread_mutex_lock(&lock);
	while (resets_sent < want.streams && !resets_failed && !is_over)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

static void send_all(void) {
	static uint8_t message[MOST_SIZE];
	double begun = now_s();
	for (uint32_t n = 0; n < want.send && !is_over; n++) {
		uint32_t sid = n % want.streams, index = n / want.streams;
		if (want.reset_streams && n == want.send / 2)
			reset_streams();
		if (want.rate > 0) {
			double wait = begun + n / want.rate - now_s();
			if (wait > 0)
				usleep((useconds_t)(wait * 1e6));
		}
		uint32_t size = size_of(sid, index, want.least, want.most);
		fill(message, size, sid, index);
		if (n == want.wrong_byte)
			message[size - 1] ^= 1;
		send_one(sid, message, size);
	}
}

int main(int count_, char **words) {
	parse(count_, words);
	usrsctp_init(want.encapsulation, NULL, NULL);
	usrsctp_sysctl_set_sctp_no_csum_on_loopback(0);
	usrsctp_sysctl_set_sctp_sendspace(1 << 20);
	usrsctp_sysctl_set_sctp_recvspace(1 << 20);
	usrsctp_sysctl_set_sctp_max_chunks_on_queue(8192);
	usrsctp_sysctl_set_sctp_nrsack_enable(want.nr_sack);
	if (want.rto_min) {
		usrsctp_sysctl_set_sctp_rto_min_default(want.rto_min);
		usrsctp_sysctl_set_sctp_rto_initial_default(want.rto_min * 2);
		usrsctp_sysctl_set_sctp_rto_max_default(want.rto_min * 10);
	}
	pthread_t watcher, receiver;
	pthread_create(&watcher, NULL, watch, NULL);
	establish();
	pthread_create(&receiver, NULL, receive, NULL);
	send_all();
	pthread_mutex_lock(&lock);
	while (received.messages < want.receive && !is_over)
		pthread_cond_wait(&changed, &lock);
	bool is_early = is_over;
	pthread_mutex_unlock(&lock);
	if (!is_early && strcmp(want.close, "shutdown") == 0) {
		if (usrsctp_shutdown(sock, SHUT_WR) != 0)
			die("shutdown");
	} else if (!is_early && strcmp(want.close, "abort") == 0) {
		struct sctp_sndinfo how = { .snd_flags = SCTP_ABORT };
		if (usrsctp_sendv(sock, "as told", 7, NULL, 0, &how, sizeof how, SCTP_SENDV_SNDINFO, 0) < 0)
			die("abort");
		usleep(want.linger * 1000);
		pthread_mutex_lock(&lock);
		end = "aborted";
		finish();
	}
	pthread_join(receiver, NULL);
	/* The last packet is the library's own, and is sent again if the peer asks for it. */
	usleep(want.linger * 1000);
	pthread_mutex_lock(&lock);
	finish();
}
