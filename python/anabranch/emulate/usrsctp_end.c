#define _GNU_SOURCE
/* One end of a flow on libusrsctp, FreeBSD's SCTP in user space: `anabranch testbed --stack usrsctp` builds it and
 * starts it in the network of a node, once for each end.
 *
 * Standard input is a socket of packets (SOCK_SEQPACKET) to the testbed, which gives orders there, each of which is
 * answered, and hears at any time what happens. The first byte says what a packet is; numbers are as this machine has
 * them. crates/anabranch-emulate/src/kernel/usrsctp.rs is the other side.
 *
 * Packets are those of RFC 6951, SCTP over UDP, always: over raw IP the library gives a packet the source address of
 * any path, since it knows no routes; over UDP the kernel gives it the address of the path that it takes.
 *
 *     usrsctp_end connect|listen UDP-PORT LOCAL,LOCAL... REMOTE,REMOTE... NAME=VALUE...
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <usrsctp.h>

enum { TESTBED = 0, MOST_PATHS = 16, PORT = 5001, LARGEST = 1 << 16 };

/* The library's timers tick that often, in ms; what they cause is announced by no call of ours. */
enum { TICK = 10 };

/* Orders, of which SEND is followed by `struct order` and the message. */
enum { CONNECT = 'C', SEND = 'S', SHUTDOWN = 'F', ABORT = 'A', QUERY = 'Q' };
/* Answers: how it went, or what was asked for. */
enum { ANSWER = 'a', STATE = 'q' };
enum { DONE, FULL, FAILED };
/* What happens: the first two once, the end is listening or could not be made. */
enum {
	READY = 'L', REFUSED = 'E', UP = 'u', DOWN = 'd', WHOLE = 'm', PART = 'p', WRITABLE = 'w', PATH = 'n',
	ABANDONED = 'g', FINISHED = 'f'
};
/* Why a connection is down. */
enum { BY_SHUTDOWN, BY_ABORT, LOST };

struct order {
	uint8_t kind, is_unordered;
	uint16_t stream;
	uint32_t ppid, policy, value;
};

struct path {
	uint32_t is_active, cwnd, srtt_ms, rto_ms, is_primary;
};

static const struct {
	const char *name;
	int (*set)(uint32_t value);
} tunables[] = {
	{ "association_max_retrans", usrsctp_sysctl_set_sctp_assoc_rtx_max_default },
	{ "hb_interval", usrsctp_sysctl_set_sctp_heartbeat_interval_default },
	{ "hb_max_burst", usrsctp_sysctl_set_sctp_hb_maxburst },
	{ "max_burst", usrsctp_sysctl_set_sctp_max_burst_default },
	{ "max_inbound_streams", usrsctp_sysctl_set_sctp_nr_incoming_streams_default },
	{ "max_init_retransmits", usrsctp_sysctl_set_sctp_init_rtx_max_default },
	{ "max_init_timeout", usrsctp_sysctl_set_sctp_init_rto_max_default },
	{ "partial_reliability", usrsctp_sysctl_set_sctp_pr_enable },
	{ "path_max_retrans", usrsctp_sysctl_set_sctp_path_rtx_max_default },
	{ "pf_max_retrans", usrsctp_sysctl_set_sctp_path_pf_threshold },
	{ "receive_buffer", usrsctp_sysctl_set_sctp_recvspace },
	{ "rto_initial", usrsctp_sysctl_set_sctp_rto_initial_default },
	{ "rto_max", usrsctp_sysctl_set_sctp_rto_max_default },
	{ "rto_min", usrsctp_sysctl_set_sctp_rto_min_default },
	{ "sack_delay", usrsctp_sysctl_set_sctp_delayed_sack_time_default },
	{ "sack_frequency", usrsctp_sysctl_set_sctp_sack_freq_default },
	{ "send_buffer", usrsctp_sysctl_set_sctp_sendspace },
	{ "streams", usrsctp_sysctl_set_sctp_nr_outgoing_streams_default },
	{ "valid_cookie_life", usrsctp_sysctl_set_sctp_valid_cookie_life_default },
};

static bool is_caller, has_nagle, has_heartbeats = true, is_blocked;
static uint32_t mtu = 1500;
static uint16_t encapsulation;
static int family;
static struct sockaddr_storage local[MOST_PATHS], remote[MOST_PATHS];
static int paths;
static struct socket *listener, *sock;
static int bell;
/* How many connections have been opened; each has a port of its own, since the last one may linger. */
static uint16_t connections;

/* Tells the testbed; without it there is nothing to do. */
static void tell(const void *packet, size_t length) {
	if (send(TESTBED, packet, length, MSG_NOSIGNAL) < 0)
		_exit(1);
}

static void tell_two(uint8_t kind, uint8_t value) {
	uint8_t packet[2] = { kind, value };
	tell(packet, sizeof packet);
}

/* Says what this library does not take, and ends. */
static void refuse(const char *format, ...) {
	char text[512] = { REFUSED };
	va_list words;
	va_start(words, format);
	vsnprintf(text + 1, sizeof text - 1, format, words);
	va_end(words);
	tell(text, strlen(text));
	_exit(1);
}

static void set_port(struct sockaddr_storage *address, uint16_t port) {
	if (family == AF_INET)
		((struct sockaddr_in *)address)->sin_port = htons(port);
	else
		((struct sockaddr_in6 *)address)->sin6_port = htons(port);
}

static void parse_addresses(char *list, struct sockaddr_storage *to) {
	int count = 0;
	for (char *word = strtok(list, ","); word && count < MOST_PATHS; word = strtok(NULL, ","), count++) {
		family = strchr(word, ':') ? AF_INET6 : AF_INET;
		to[count].ss_family = (sa_family_t)family;
		void *place = family == AF_INET ? (void *)&((struct sockaddr_in *)&to[count])->sin_addr
						: (void *)&((struct sockaddr_in6 *)&to[count])->sin6_addr;
		if (inet_pton(family, word, place) != 1)
			refuse("`%s` is no address", word);
		set_port(&to[count], PORT);
	}
	paths = count;
}

static void apply(char *setting) {
	char *text = strchr(setting, '=');
	if (!text)
		refuse("`%s` has no value", setting);
	*text++ = 0;
	uint32_t value = (uint32_t)strtoul(text, NULL, 10);
	if (strcmp(setting, "mtu") == 0)
		mtu = value;
	else if (strcmp(setting, "nagle") == 0)
		has_nagle = value;
	else if (strcmp(setting, "hb_enabled") == 0)
		has_heartbeats = value;
	else {
		for (size_t i = 0; i < sizeof tunables / sizeof *tunables; i++)
			if (strcmp(setting, tunables[i].name) == 0) {
				if (tunables[i].set(value) < 0)
					refuse("%s: usrsctp does not take %u", setting, value);
				return;
			}
		refuse("%s: usrsctp has no such setting", setting);
	}
}

/* The addresses one behind the other, as the library wants them. */
static struct sockaddr *packed(struct sockaddr_storage *list) {
	static char together[MOST_PATHS * sizeof(struct sockaddr_in6)];
	size_t size = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	for (int i = 0; i < paths; i++)
		memcpy(together + (size_t)i * size, &list[i], size);
	return (struct sockaddr *)together;
}

/* Packets have come, or the socket has failed. */
static void ring(struct socket *unused, void *argument, int flags) {
	(void)unused, (void)argument, (void)flags;
	eventfd_write(bell, 1);
}

static void set(struct socket *on, int option, const void *value, socklen_t length, const char *what) {
	if (usrsctp_setsockopt(on, IPPROTO_SCTP, option, value, length) != 0)
		refuse("%s: %s", what, strerror(errno));
}

/* A socket with the settings, at the addresses; NULL if that failed. */
static struct socket *make(uint16_t port) {
	static const uint16_t events[] = { SCTP_ASSOC_CHANGE, SCTP_PEER_ADDR_CHANGE, SCTP_SHUTDOWN_EVENT,
					   SCTP_SEND_FAILED_EVENT };
	struct socket *made = usrsctp_socket(family, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
	if (!made)
		return NULL;
	usrsctp_set_non_blocking(made, 1);
	usrsctp_set_upcall(made, ring, NULL);
	for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
		struct sctp_event one = { .se_assoc_id = SCTP_FUTURE_ASSOC, .se_type = events[i], .se_on = 1 };
		set(made, SCTP_EVENT, &one, sizeof one, "SCTP_EVENT");
	}
	int is_nodelay = !has_nagle;
	set(made, SCTP_NODELAY, &is_nodelay, sizeof is_nodelay, "SCTP_NODELAY");
	/* What remains of a packet behind the headers of IP and SCTP, and of UDP. */
	uint32_t headers = (family == AF_INET ? 20 : 40) + 12 + 8;
	struct sctp_paddrparams path = { .spp_assoc_id = SCTP_FUTURE_ASSOC, .spp_pathmtu = mtu - headers,
					 .spp_flags = SPP_PMTUD_DISABLE
						      | (has_heartbeats ? SPP_HB_ENABLE : SPP_HB_DISABLE) };
	path.spp_address.ss_family = (sa_family_t)family;
	set(made, SCTP_PEER_ADDR_PARAMS, &path, sizeof path, "SCTP_PEER_ADDR_PARAMS");
	struct sctp_udpencaps over = { .sue_port = htons(encapsulation) };
	over.sue_address.ss_family = (sa_family_t)family;
	set(made, SCTP_REMOTE_UDP_ENCAPS_PORT, &over, sizeof over, "SCTP_REMOTE_UDP_ENCAPS_PORT");
	for (int i = 0; i < paths; i++)
		set_port(&local[i], port);
	if (usrsctp_bindx(made, packed(local), paths, SCTP_BINDX_ADD_ADDR) == 0)
		return made;
	usrsctp_close(made);
	return NULL;
}

static void open_end(void) {
	if (is_caller)
		return;
	listener = make(PORT);
	if (!listener || usrsctp_listen(listener, 1) != 0)
		refuse("usrsctp cannot listen: %s", strerror(errno));
}

static int connect_end(void) {
	if (sock)
		return FAILED;
	sock = make((uint16_t)(PORT + connections++));
	if (sock && (usrsctp_connectx(sock, packed(remote), paths, NULL) == 0 || errno == EINPROGRESS))
		return DONE;
	if (sock)
		usrsctp_close(sock);
	sock = NULL;
	return FAILED;
}

static void down(uint8_t why) {
	usrsctp_close(sock);
	sock = NULL;
	is_blocked = false;
	tell_two(DOWN, why);
}

static int send_message(const struct order *order, const void *message, size_t size) {
	if (!sock)
		return FAILED;
	struct sctp_sendv_spa how = { .sendv_flags = SCTP_SEND_SNDINFO_VALID | SCTP_SEND_PRINFO_VALID };
	how.sendv_sndinfo.snd_sid = order->stream;
	how.sendv_sndinfo.snd_ppid = htonl(order->ppid);
	how.sendv_sndinfo.snd_flags = order->is_unordered ? SCTP_UNORDERED : 0;
	how.sendv_prinfo.pr_policy = (uint16_t)order->policy;
	how.sendv_prinfo.pr_value = order->value;
	if (usrsctp_sendv(sock, message, size, NULL, 0, &how, sizeof how, SCTP_SENDV_SPA, 0) == (ssize_t)size)
		return DONE;
	is_blocked = errno == EWOULDBLOCK || errno == EAGAIN || errno == ENOBUFS;
	return is_blocked ? FULL : FAILED;
}

/* Ends the connection at once. */
static int abort_end(void) {
	if (!sock)
		return FAILED;
	struct linger at_once = { .l_onoff = 1, .l_linger = 0 };
	usrsctp_setsockopt(sock, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
	usrsctp_close(sock);
	sock = NULL;
	is_blocked = false;
	return DONE;
}

/* The state of the paths, in their order, and what the library has counted. */
static void answer_query(void) {
	struct {
		uint32_t kind, has_connection;
		struct path paths[MOST_PATHS];
		uint32_t counters[16];
	} state = { .kind = STATE };
	struct sctp_status status = { 0 };
	socklen_t length = sizeof status;
	state.has_connection = sock && usrsctp_getsockopt(sock, IPPROTO_SCTP, SCTP_STATUS, &status, &length) == 0;
	for (int i = 0; i < paths && state.has_connection; i++) {
		struct sctp_paddrinfo info = { .spinfo_address = remote[i] };
		length = sizeof info;
		if (usrsctp_getsockopt(sock, IPPROTO_SCTP, SCTP_GET_PEER_ADDR_INFO, &info, &length) != 0)
			continue;
		const void *primary = &status.sstat_primary.spinfo_address;
		bool is_primary = family == AF_INET
			? memcmp(&((const struct sockaddr_in *)primary)->sin_addr,
				 &((const struct sockaddr_in *)&remote[i])->sin_addr, 4) == 0
			: memcmp(&((const struct sockaddr_in6 *)primary)->sin6_addr,
				 &((const struct sockaddr_in6 *)&remote[i])->sin6_addr, 16) == 0;
		state.paths[i] = (struct path){ info.spinfo_state == SCTP_ACTIVE, info.spinfo_cwnd, info.spinfo_srtt,
						info.spinfo_rto, is_primary };
	}
	struct sctpstat stat;
	usrsctp_get_stat(&stat);
	/* In the order of COUNTERS on the other side. */
	const uint32_t counters[] = {
		stat.sctps_senddata, stat.sctps_sendretransdata, stat.sctps_recvdata, stat.sctps_recvdupdata,
		stat.sctps_timodata, stat.sctps_sendfastretrans, stat.sctps_sendheartbeat,
		stat.sctps_recvheartbeatack, stat.sctps_sendsacks, stat.sctps_recvsacks, stat.sctps_sendpackets,
		stat.sctps_recvpackets, stat.sctps_timosack, stat.sctps_maxburstqueued, stat.sctps_checksumerrors,
		stat.sctps_senderrors,
	};
	_Static_assert(sizeof counters == sizeof state.counters, "as many as are told");
	memcpy(state.counters, counters, sizeof counters);
	tell(&state, sizeof state);
}

/* What a notification tells (RFC 6458 section 6.1). */
static void notified(const uint8_t *bytes, size_t length) {
	const union sctp_notification *note = (const union sctp_notification *)bytes;
	switch (note->sn_header.sn_type) {
	case SCTP_ASSOC_CHANGE: {
		const struct sctp_assoc_change *change = &note->sn_assoc_change;
		if (change->sac_state == SCTP_COMM_UP && is_caller)
			tell_two(UP, 0);
		else if (change->sac_state == SCTP_SHUTDOWN_COMP)
			down(BY_SHUTDOWN);
		else if (change->sac_state == SCTP_COMM_LOST)
			/* An ABORT of the peer comes with it. */
			down(length > sizeof *change ? BY_ABORT : LOST);
		else if (change->sac_state == SCTP_CANT_STR_ASSOC)
			down(LOST);
		break;
	}
	case SCTP_PEER_ADDR_CHANGE: {
		const struct sctp_paddr_change *change = &note->sn_paddr_change;
		const void *at = &change->spc_aaddr;
		uint8_t packet[3] = { PATH, 0, change->spc_state == SCTP_ADDR_UNREACHABLE };
		if (change->spc_state != SCTP_ADDR_UNREACHABLE && change->spc_state != SCTP_ADDR_AVAILABLE)
			break;
		for (int i = 0; i < paths; i++) {
			bool is_it = family == AF_INET
				? memcmp(&((const struct sockaddr_in *)at)->sin_addr,
					 &((const struct sockaddr_in *)&remote[i])->sin_addr, 4) == 0
				: memcmp(&((const struct sockaddr_in6 *)at)->sin6_addr,
					 &((const struct sockaddr_in6 *)&remote[i])->sin6_addr, 16) == 0;
			if (is_it) {
				packet[1] = (uint8_t)i;
				tell(packet, sizeof packet);
			}
		}
		break;
	}
	case SCTP_SEND_FAILED_EVENT: {
		static uint8_t packet[1 + LARGEST];
		const struct sctp_send_failed_event *failed = &note->sn_send_failed_event;
		packet[0] = ABANDONED;
		memcpy(packet + 1, failed->ssfe_data, length - sizeof *failed);
		tell(packet, 1 + length - sizeof *failed);
		break;
	}
	case SCTP_SHUTDOWN_EVENT:
		tell_two(FINISHED, 0);
		break;
	}
}

/* Hands on all that has come. */
static void hand_on(void) {
	/* What comes is aligned as notifications are, behind the byte that says what it is. */
	static _Alignas(8) uint8_t buffer[8 + LARGEST];
	uint8_t *packet = buffer + 7;
	if (listener && !sock) {
		sock = usrsctp_accept(listener, NULL, NULL);
		if (sock) {
			usrsctp_set_non_blocking(sock, 1);
			usrsctp_set_upcall(sock, ring, NULL);
			tell_two(UP, 0);
		}
	}
	while (sock) {
		struct sctp_rcvinfo info;
		struct sockaddr_storage from;
		socklen_t from_length = sizeof from, info_length = sizeof info;
		unsigned int type = 0;
		int flags = 0;
		ssize_t got = usrsctp_recvv(sock, packet + 1, LARGEST, (struct sockaddr *)&from, &from_length, &info,
					    &info_length, &type, &flags);
		if (got < 0 && (errno == EWOULDBLOCK || errno == EAGAIN || errno == EINTR || errno == ENOTCONN))
			break;
		if (got <= 0) {
			down(got < 0 ? LOST : BY_SHUTDOWN);
		} else if (flags & MSG_NOTIFICATION) {
			notified(packet + 1, (size_t)got);
		} else {
			packet[0] = flags & MSG_EOR ? WHOLE : PART;
			tell(packet, 1 + (size_t)got);
		}
	}
	if (sock && is_blocked && usrsctp_get_events(sock) & SCTP_EVENT_WRITE) {
		is_blocked = false;
		tell_two(WRITABLE, 0);
	}
}

static void obey(void) {
	static uint8_t packet[1 << 20];
	ssize_t got = recv(TESTBED, packet, sizeof packet, 0);
	if (got <= 0)
		_exit(0);
	struct order order;
	switch (packet[0]) {
	case CONNECT:
		tell_two(ANSWER, (uint8_t)connect_end());
		break;
	case SEND:
		memcpy(&order, packet, sizeof order);
		tell_two(ANSWER, (uint8_t)send_message(&order, packet + sizeof order, (size_t)got - sizeof order));
		break;
	case SHUTDOWN:
		tell_two(ANSWER, sock && usrsctp_shutdown(sock, SHUT_WR) == 0 ? DONE : FAILED);
		break;
	case ABORT:
		tell_two(ANSWER, (uint8_t)abort_end());
		break;
	case QUERY:
		answer_query();
		break;
	}
}

int main(int count, char **words) {
	if (count < 5) {
		fprintf(stderr, "usage: usrsctp_end connect|listen UDP-PORT LOCAL,... REMOTE,... NAME=VALUE...\n");
		return 2;
	}
	/* The testbed waits for each answer, and so it is served as early, where that is permitted. */
	struct sched_param first = { .sched_priority = 1 };
	sched_setscheduler(0, SCHED_FIFO, &first);
	is_caller = strcmp(words[1], "connect") == 0;
	encapsulation = (uint16_t)atoi(words[2]);
	parse_addresses(words[3], local);
	parse_addresses(words[4], remote);
	bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	usrsctp_init(encapsulation, NULL, NULL);
	for (int i = 5; i < count; i++)
		apply(words[i]);
	open_end();
	tell_two(READY, 0);
	for (;;) {
		struct pollfd watched[2] = { { .fd = TESTBED, .events = POLLIN }, { .fd = bell, .events = POLLIN } };
		poll(watched, 2, TICK);
		if (watched[1].revents) {
			eventfd_t rings;
			eventfd_read(bell, &rings);
		}
		if (watched[0].revents)
			obey();
		hand_on();
	}
}
