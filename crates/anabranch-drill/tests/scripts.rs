//! Our own scripts, and scripts that must not pass.

use std::fs;
use std::path::{Path, PathBuf};

use anabranch_drill::{Options, Report, Verdict, drill};

fn scripts(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            found.extend(scripts(&path));
        } else if path.extension().is_some_and(|extension| extension == "pkt") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn run(text: &str, folder: &Path) -> Report {
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
    drill(text, &Options { profile: None, read: &read, is_cancelled: &|| false }).expect("it is a script")
}

#[test]
fn our_own_scripts_pass() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let found = scripts(&folder);
    assert!(found.len() >= 15, "only {} scripts", found.len());
    for path in found {
        let text = fs::read_to_string(&path).expect("it can be read");
        let report = run(&text, path.parent().expect("it has a folder"));
        assert_eq!(report.verdict, Verdict::Passed, "{}: {report:#?}", path.display());
        // A second run gives the same result, as nothing is random.
        assert_eq!(report, run(&text, path.parent().expect("it has a folder")));
    }
}

/// The report on a script that opens a connection of a server and continues like this.
fn server(rest: &str) -> Report {
    let opening = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 bind(3, ..., ...) = 0\n+0 listen(3, 1) = 0\n\
                   +0 < S 0:0(0) win 65535 <mss 1000>\n+0 > S. 0:0(0) ack 1 <mss 1460>\n\
                   +.1 < . 1:1(0) ack 1 win 65535\n+0 accept(3, ..., ...) = 4\n";
    run(&format!("{opening}{rest}"), Path::new("."))
}

#[test]
fn what_differs_is_told() {
    for (rest, line, expected, reason) in [
        (
            "+0 write(4, ..., 500) = 500\n+0 > P. 1:501(500) ack 2\n",
            9,
            "+0 > P. 1:501(500) ack 2",
            "ack is 1, not 2",
        ),
        (
            "+0 write(4, ..., 500) = 500\n+0 > . 1:501(500) ack 1\n",
            9,
            "+0 > . 1:501(500) ack 1",
            "flags are P., not .",
        ),
        (
            "+0 write(4, ..., 500) = 500\n+.5 > P. 1:501(500) ack 1\n",
            9,
            "+.5 > P. 1:501(500) ack 1",
            "it was sent at 0.100007, not at 0.600007; 0.062500 s are tolerated",
        ),
        ("+0 write(4, ..., 500) = 400\n", 8, "+0 write(4, ..., 500) = 400", "write returns something else"),
        ("+0 > P. 1:501(500) ack 1\n", 8, "+0 > P. 1:501(500) ack 1", "nothing was sent until 2.104006"),
        (
            "+0 %{ assert tcpi_snd_cwnd == 4, tcpi_snd_cwnd }%\n",
            8,
            "+0 %{ assert tcpi_snd_cwnd == 4, tcpi_snd_cwnd }%",
            "the assertion does not hold",
        ),
        (
            "+0 read(4, ..., 5) = 5\n",
            8,
            "+0 read(4, ..., 5) = 5",
            "the call waits where it should return at once",
        ),
    ] {
        let report = server(rest);
        assert_eq!(report.verdict, Verdict::Failed, "{rest}");
        assert_eq!(report.line, Some(line), "{rest}");
        assert_eq!(report.expected.as_deref(), Some(expected));
        assert_eq!(report.reason.as_deref(), Some(reason));
        assert!(report.seen.is_some() && report.when_s.is_some());
    }
}

#[test]
fn what_is_not_there_is_named_and_never_passed() {
    for (rest, reason) in [
        ("+0 `sysctl -q net.ipv4.tcp_window_dreams=1`", "needs the setting net.ipv4.tcp_window_dreams=1"),
        ("+0 `reboot now`", "needs the command \"reboot now\""),
        ("+0 setsockopt(4, SOL_TCP, TCP_MD5SIG, [1], 4) = 0", "needs the socket option TCP_MD5SIG"),
        ("+0 pipe([5, 6]) = 0", "needs the system call pipe"),
        (
            "+0 recvmsg(4, {msg_iov(1)=[{..., 0}], msg_control=[{cmsg_level=SOL_IP, cmsg_data=1}]}, 0) = 0",
            "needs control messages",
        ),
        ("+0 %{ assert tcpi_dreams == 1 }%", "needs the value tcpi_dreams"),
        ("+0 < [ttl 1] . 1:1(0) ack 1 win 9", "needs \"ttl 1\" in the IP header"),
        ("+0 < icmp unreachable frag_needed mtu 900 [1:2(1)]", "needs ICMP (unreachable)"),
        ("+0 `../nowhere.sh`", "needs the file ../nowhere.sh"),
    ] {
        let report = server(rest);
        assert_eq!((report.verdict, report.reason.as_deref()), (Verdict::NotApplicable, Some(reason)));
        assert_eq!(report.line, Some(8));
    }
}

/// The report on a script that opens an association of a server and continues like this.
fn association(rest: &str) -> Report {
    let opening = "0 socket(..., SOCK_STREAM, IPPROTO_SCTP) = 3\n+0 listen(3, 1) = 0\n\
                   +0 < sctp: INIT[flgs=0, tag=1, a_rwnd=1500, os=1, is=1, tsn=1]\n\
                   +0 > sctp: INIT_ACK[flgs=0, tag=2, a_rwnd=..., os=..., is=..., tsn=1, ...]\n\
                   +.1 < sctp: COOKIE_ECHO[flgs=0, len=..., val=...]\n+0 > sctp: COOKIE_ACK[flgs=0]\n\
                   +0 accept(3, ..., ...) = 4\n";
    run(&format!("{opening}{rest}"), Path::new("."))
}

#[test]
fn what_differs_of_chunks_is_told() {
    let write = "+0 write(4, ..., 100) = 100\n";
    for (wanted, reason) in [
        ("DATA[flgs=BE, len=116, tsn=2, sid=0, ssn=0, ppid=0]", "tsn of DATA differs"),
        ("DATA[flgs=B, len=116, tsn=1, sid=0, ssn=0, ppid=0]", "flgs of DATA differs"),
        ("DATA[flgs=BE, len=120, tsn=1, sid=0, ssn=0, ppid=0]", "the length of DATA is 116"),
        ("SHUTDOWN[flgs=0, cum_tsn=0]", "type of SHUTDOWN differs"),
        ("DATA[flgs=BE, len=116, tsn=1, sid=0, ssn=0, ppid=0]; COOKIE_ACK[flgs=0]", "there is no COOKIE_ACK"),
    ] {
        let report = association(&format!("{write}+0 > sctp: {wanted}\n"));
        assert_eq!((report.verdict, report.line), (Verdict::Failed, Some(9)), "{wanted}");
        assert_eq!(report.reason.as_deref(), Some(reason), "{wanted}");
        let seen = "> sctp: DATA[flgs=BE, len=116, tsn=1, sid=0, ssn=0, ppid=0]";
        assert_eq!(report.seen.as_deref(), Some(seen));
    }
    for (rest, reason) in [
        ("+0 < sctp: ASCONF[flgs=0]", "needs the chunk ASCONF"),
        ("+0 < sctp: SHUTDOWN[flgs=0, cum_tsn=0, more=1]", "needs SHUTDOWN with more=1"),
        (
            "+0 < sctp: DATA[flgs=X, len=20, tsn=1, sid=0, ssn=0, ppid=0]",
            "needs DATA without flgs or with another one",
        ),
        ("+0 < [ttl 1] sctp: COOKIE_ACK[flgs=0]", "needs \"ttl 1\" in the IP header"),
        ("+0 setsockopt(4, IPPROTO_SCTP, SCTP_DREAMS, [1], 4) = 0", "needs the socket option SCTP_DREAMS"),
        ("+0 `sysctl -w net.inet.sctp.ecn_enable=1`", "needs the setting net.inet.sctp.ecn_enable=1"),
        ("+0 epoll_create(4) = 5", "needs the system call epoll_create"),
    ] {
        let report = association(&format!("{rest}\n"));
        assert_eq!((report.verdict, report.reason.as_deref()), (Verdict::NotApplicable, Some(reason)));
    }
}

#[test]
fn mistakes_are_one_sentence() {
    let read = |_: &str| None;
    let options = |profile| Options { profile, read: &read, is_cancelled: &|| false };
    assert_eq!(
        drill("0 close(3) = \n", &options(None)).unwrap_err(),
        "line 2: the script ends where a value is expected"
    );
    let error = drill("", &options(Some("linux_9"))).unwrap_err();
    assert!(error.starts_with("profile = `linux_9` is not one of "), "{error}");
}

#[test]
fn a_script_can_be_given_up() {
    let script = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n".to_owned()
        + &"+0 bind(3, ..., ...) = 0\n".repeat(1_000);
    let (read, asked) = (|_: &str| None, std::cell::Cell::new(0));
    let is_cancelled = || {
        asked.set(asked.get() + 1);
        asked.get() == 2
    };
    let options = Options { profile: None, read: &read, is_cancelled: &is_cancelled };
    assert_eq!(drill(&script, &options).unwrap_err(), "the script was given up");
    assert_eq!(asked.get(), 2);
}
