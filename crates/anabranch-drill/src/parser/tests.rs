//! Scripts of our own that show the language.

use super::*;
use crate::script::{Body, EcnCheck, Packet, Tcp, TcpOption, Term};

fn one(text: &str) -> Statement {
    let mut script = parse(text, &["Linux"]).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(script.statements.len(), 1, "{text}");
    script.statements.remove(0)
}

fn packet(text: &str) -> Packet {
    match one(text).action {
        Action::Packet(packet) => packet,
        other => panic!("{text} is {other:?}"),
    }
}

fn tcp(text: &str) -> Tcp {
    match packet(text).body {
        Body::Tcp(tcp) => tcp,
        other => panic!("{text} is {other:?}"),
    }
}

fn call(text: &str) -> Call {
    match one(text).action {
        Action::Call(call) => call,
        other => panic!("{text} is {other:?}"),
    }
}

fn error(text: &str) -> String {
    parse(text, &[]).expect_err("it cannot be read").to_string()
}

#[test]
fn times_are_relative_absolute_ranges_or_any() {
    let micros = Duration::from_micros;
    let when = |text: &str| one(&format!("{text} close(3) = 0")).when;
    assert_eq!(when("+.25"), When::Relative { from: micros(250_000), to: None });
    assert_eq!(when("2"), When::Absolute { from: micros(2_000_000), to: None });
    assert_eq!(when("1.5~1.75"), When::Absolute { from: micros(1_500_000), to: Some(micros(1_750_000)) });
    assert_eq!(when("+.3~+.310"), When::Relative { from: micros(300_000), to: Some(micros(310_000)) });
    assert_eq!(when("*"), When::Any);
    assert_eq!(one("`sysctl -q a=1`").when, When::Now);
    assert_eq!(when("0.000000001"), When::Absolute { from: Duration::from_nanos(1), to: None });
}

#[test]
fn a_call_has_arguments_a_result_an_error_and_an_end() {
    let blocked = call("+0...0.2 read(4, ..., 500) = 500 // waits");
    assert_eq!(blocked.ends, Some(Duration::from_millis(200)));
    assert_eq!((blocked.name.as_str(), &blocked.result), ("read", &Term::Number(500)));
    assert_eq!(blocked.arguments, [Term::Number(4), Term::Any, Term::Number(500)]);
    let failed = call("+0 write (4, ..., 9) = -1 EAGAIN (Resource temporarily unavailable)");
    assert_eq!((failed.result, failed.error.as_deref()), (Term::Number(-1), Some("EAGAIN")));
    let flags = call("0 fcntl(3, F_GETFL) = 0x2 (flags O_RDWR)");
    assert_eq!((flags.result, flags.error), (Term::Number(2), None));
    let polled = call("0 poll([{fd=4, events=POLLIN|POLLOUT, revents=0}], 1, 10) = 0");
    let [entry] = polled.arguments[0].parts() else { panic!("one entry") };
    assert_eq!(entry.setting("events").map(Term::flags), Some(vec!["POLLIN", "POLLOUT"]));
    let message = call("0 sendmsg(4, {msg_name(...)=..., msg_iov(1)=[{..., 10}], msg_flags=0}, 0) = 10");
    assert!(message.arguments[1].setting("msg_iov").is_some());
    let option = call("0 setsockopt(4, SOL_TCP, TCP_NOTSENT_LOWAT, [0xffffffff], 4) = 0");
    assert_eq!(option.arguments[3].only().and_then(Term::number), Some(0xffff_ffff));
}

#[test]
fn a_segment_of_tcp_has_flags_numbers_and_options_in_order() {
    let syn = tcp("0 < SEWA 0:0(0) win 32792 <mss 1000,sackOK,TS val 7 ecr 0,nop,wscale 7>");
    assert_eq!((syn.flags.as_str(), syn.window, syn.ack), ("SEWA", Some(32_792), None));
    let options = syn.options.expect("they are looked at");
    assert_eq!(options[2], TcpOption::Timestamps { value: 7, echo: 0 });
    assert_eq!(options.len(), 5);
    let data = tcp("+0 > P. 1:1461(1460) ack 1\n");
    assert_eq!((data.start, data.end, data.length, data.ack), (1, 1_461, 1_460, Some(1)));
    assert_eq!(data.options, Some(Vec::new()));
    assert_eq!(tcp("+0 > . 1:1(0) ack 1 <...>").options, None);
    let sack = tcp("+0 < . 1:1(0) ack 1 win 9 <nop,nop,sack 5:7 9:11>").options.expect("they are there");
    assert_eq!(sack[2], TcpOption::Sack(vec![(5, 7), (9, 11)]));
    let counted = tcp("+0 > .5 1:1(0) ack 1 <ECN e1b 1 ceb 0 e0b 1,nop>");
    assert_eq!((counted.flags.as_str(), counted.ace), (".", Some(5)));
    let counted = tcp("+0 > [ect0] P6. 1:101(100) ack 1");
    assert_eq!((counted.flags.as_str(), counted.ace), ("P.", Some(6)));
    let cookie = tcp("0 > S 0:0(0) <mss 1460,FO 0123abcd,FOEXP,eol>").options.expect("they are there");
    assert_eq!(cookie[1], TcpOption::FastOpen("0123abcd".into()));
    assert_eq!(cookie[2], TcpOption::FastOpenExperimental(String::new()));
    assert_eq!(tcp("+0 < 4000 > 80 - 0:0(0) win 5").ports, Some([4_000, 80]));
}

#[test]
fn the_ip_header_and_icmp_are_read() {
    assert_eq!(packet("+0 < [ce] . 1:1(0) ack 1 win 5").ecn, Some(EcnCheck::Ce));
    assert_eq!(packet("+0 > (ect01, ttl 64) . 1:1(0) ack 1").ip, ["ttl 64"]);
    let Body::Icmp(icmp) = packet("+0 < icmp unreachable frag_needed mtu 1200 [1:1001(1000)]").body else {
        panic!("it is ICMP")
    };
    assert_eq!(
        (icmp.code.as_deref(), icmp.mtu, icmp.echoed),
        (Some("frag_needed"), Some(1_200), Some((1, 1_001, 1_000)))
    );
    assert_eq!(packet("+0 > udp (100)").body, Body::Other("udp".into()));
}

#[test]
fn mptcp_has_words_settings_and_addresses() {
    let joined = packet(
        "+0 > addr[saddr1] > addr[caddr1] . 1:1(0) ack 1 <nop,nop,dss dack4=1 dll=0 nocs, mp_prio backup=1>",
    );
    assert_eq!(joined.addresses[1].as_ref().map(ToString::to_string).as_deref(), Some("addr[caddr1]"));
    let Body::Tcp(Tcp { options: Some(options), .. }) = joined.body else { panic!("it is TCP") };
    let TcpOption::Mptcp(name, terms) = &options[2] else { panic!("it is MPTCP") };
    assert_eq!((name.as_str(), crate::script::setting(terms, "dack4")), ("dss", Some(&Term::Number(1))));
    assert_eq!(terms[2], Term::Word("nocs".into()));
    let partly = packet("+0 < > addr[saddr1] F. 1:1(0) ack 1 win 5");
    assert!(partly.addresses[0].is_none() && partly.addresses[1].is_some());
    let capable =
        tcp("+0 < . 1:1(0) ack 1 win 5 <mpcapable v1 flags[flag_h] key[ckey=2, skey] mpcdatalen 9, nop>");
    let TcpOption::Mptcp(_, terms) = &capable.options.expect("they are there")[0] else {
        panic!("it is MPTCP")
    };
    assert_eq!(terms[2].setting("ckey"), Some(&Term::Number(2)));
}

#[test]
fn chunks_of_sctp_are_elements() {
    let Body::Sctp(sctp) = packet(
        "+0 > sctp(tag=3): DATA[flgs=BE, len=20, tsn=1, sid=0, ssn=0, ppid=0]; SACK[flgs=0, gaps=[2:3,5:5], dups=[], ...];",
    )
    .body
    else {
        panic!("it is SCTP")
    };
    assert_eq!(sctp.header.len(), 1);
    let [data, sack] = &sctp.chunks[..] else { panic!("two chunks") };
    assert_eq!((data.name(), data.setting("tsn").and_then(Term::number)), (Some("DATA"), Some(1)));
    assert_eq!(sack.setting("gaps").expect("there are gaps").parts(), [Term::Range(2, 3), Term::Range(5, 5)]);
    assert_eq!(sack.parts().last(), Some(&Term::Any));
    let Body::Sctp(nested) =
        packet("+0 < sctp: INIT[flgs=0, SUPPORTED_ADDRESS_TYPES[types=[IPv4]], IPV6_ADDRESS[addr=fe80::1]]")
            .body
    else {
        panic!("it is SCTP")
    };
    assert!(nested.chunks[0].parts()[2].setting("addr").is_some_and(|term| matches!(term, Term::Address(_))));
}

#[test]
fn conditions_comments_code_and_commands() {
    let text = "--tolerance_usecs=75000 // slow\n--define=A=\"b c\"\n`set\nup`\n#ifdef Linux\n0 close(3) = 0\n#else\n\
                0 close(4) = 0\n#endif\n/* a\n note */ +1 %{ assert a == 1, a }%\n// the end\n";
    let script = parse(text, &["Linux"]).expect("it can be read");
    assert_eq!(script.option("tolerance_usecs"), Some("75000"));
    let lines: Vec<u32> = script.statements.iter().map(|statement| statement.line).collect();
    assert_eq!(lines, [3, 6, 11]);
    assert_eq!(script.statements[2].action, Action::Code(" assert a == 1, a ".into()));
    let other = parse(text, &[]).expect("it can be read");
    assert_eq!(other.statements[1].line, 8);
    assert_eq!(one("0 write(4, ..., // the rest\n   10) = 10").text, "0 write(4, ..., 10) = 10");
}

#[test]
fn what_cannot_be_read_is_one_sentence_with_its_line() {
    for (text, expected) in [
        ("0 close(3)\n", "line 2: the script ends where \"=\" is expected"),
        (
            "\n+a close(3) = 0",
            "line 2: \"a close(3) = 0\" stands where a time in seconds, such as +.1, 0.5 or * is expected",
        ),
        ("0 < S. 0:5(4) win 1", "line 1: \"win 1\" stands where 0:4(4) instead of 0:5(4) is expected"),
        ("0 < S 0:0(0) win 1 <mss 5,what>", "line 1: \"what>\" stands where an option of TCP is expected"),
        ("#ifdef Linux\n0 close(3) = 0\n", "line 2: an #ifdef has no #endif"),
        ("#endif\n", "line 1: #endif has no #ifdef before it"),
        ("0 ?", "line 1: \"?\" stands where a system call, a packet, `commands` or %{ code }% is expected"),
    ] {
        assert_eq!(error(text), expected);
    }
    // Nothing that is nested too deep overflows the stack.
    assert!(error(&format!("0 a({}1) = 0", "[".repeat(100_000))).contains("nested"));
}

/// A script in which each statement took longer than the one before would take minutes here.
#[test]
fn long_scripts_are_read_in_the_time_of_their_length() {
    const COUNT: u32 = 300_000;
    let lines = |line: &str| line.repeat(COUNT as usize);
    for line in
        ["+0 close(3) = 0\n", "+.1 < . 1:1(0) ack 1 win 9 // a note\n", "+0 `true`\n", "0 %{ x = 1 }%\n"]
    {
        let script = parse(&lines(line), &[]).expect("it can be read");
        assert_eq!(script.statements.len(), COUNT as usize, "{line}");
        assert!(script.statements.iter().zip(1..).all(|(statement, number)| statement.line == number));
    }
    let wrong = lines("+0 close(3) = 0 /*\n*/\n") + "+0 close(";
    assert!(error(&wrong).starts_with("line 600002: "));
}
