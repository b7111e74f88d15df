//! Runs a script: time passes from statement to statement, and what happens meanwhile happens on time.
//!
//! The rules of time are packetdrill's: `+N` counts from when the statement before was over, which for an
//! expected packet is when it was seen; a packet may come by the tolerance, or by an eighth of the time since
//! the statement before, too early or too late, and a call that waits may return by an eighth of the time for
//! which it should wait.

use std::path::Path;

use anabranch_transport::time::{Duration, Time};

use crate::executor::{Executor, Reply};
use crate::protocols::executor_of;
use crate::python::{self, Variables};
use crate::script::{Action, Call, Direction, Packet, Script, Statement, Term, When};
use crate::verdict::{Report, Step, Stop, Verdict, length, seconds};
use crate::{Options, shell};

/// The tolerance where a script names none.
const TOLERANCE: Duration = Duration::from_millis(4);
/// How long an expected packet is waited for beyond its time.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a packet that may come at any time is waited for: a day.
const LONGEST: Duration = Duration::from_secs(86_400);
/// The time that a statement takes. As on a real machine, no two statements happen at the same time, so rules
/// such as "at least so long ago" hold for statements that are exactly that far apart.
const STATEMENT: Duration = Duration::from_micros(1);
/// How deep scripts of commands that name each other are read.
const MOST_INCLUDED: u32 = 8;

/// How many steps are made before the caller is asked whether to go on.
const STEPS: u32 = 256;

/// Runs a script that has been read.
///
/// # Errors
/// One sentence when the script was given up.
pub(crate) fn run(script: &Script, options: &Options<'_>) -> Result<Report, String> {
    let mut report = Report {
        verdict: Verdict::Passed,
        line: None,
        expected: None,
        seen: None,
        when_s: None,
        reason: None,
        largest_deviation_s: 0.0,
        tolerance_s: TOLERANCE.as_secs_f64(),
    };
    let outcome = Runner::new(script, options).map_err(|stop| (script.statements.first(), Time::ZERO, stop));
    let outcome = outcome.and_then(|mut runner| {
        report.tolerance_s = runner.tolerance.as_secs_f64();
        let outcome = runner.run();
        report.largest_deviation_s = runner.largest_deviation.as_secs_f64();
        outcome
    });
    if let Err((statement, when, stop)) = outcome {
        report.line = statement.map(|statement| statement.line);
        report.expected = statement.map(|statement| statement.text.clone());
        report.when_s = Some(when.as_nanos() as f64 / 1e9);
        match stop {
            Stop::Failed { seen, reason } => {
                report.verdict = Verdict::Failed;
                (report.seen, report.reason) = (Some(seen), Some(reason));
            }
            Stop::Needs(what) => {
                report.verdict = Verdict::NotApplicable;
                report.reason = Some(format!("needs {what}"));
            }
            Stop::Cancelled => return Err("the script was given up".into()),
        }
    }
    Ok(report)
}

/// A call that is waiting.
struct Waiting<'a> {
    statement: &'a Statement,
    call: &'a Call,
    /// When the call began, and when it should return.
    span: [Time; 2],
}

struct Runner<'a> {
    script: &'a Script,
    options: &'a Options<'a>,
    executor: Box<dyn Executor>,
    now: Time,
    /// The least tolerance.
    tolerance: Duration,
    /// The tolerance is also at least this percentage of the time since the previous statement.
    tolerance_percent: f64,
    largest_deviation: Duration,
    variables: Variables,
    waiting: Option<Waiting<'a>>,
    /// Steps since the caller was last asked whether to go on.
    steps: u32,
}

type Outcome<'a> = Result<(), (Option<&'a Statement>, Time, Stop)>;

impl<'a> Runner<'a> {
    fn new(script: &'a Script, options: &'a Options<'a>) -> Step<Self> {
        let number = |name: &str| -> Step<Option<f64>> {
            script
                .option(name)
                .map(|text| text.parse().map_err(|_| Stop::needs(format!("a number in --{name}={text}"))))
                .transpose()
        };
        let tolerance = number("tolerance_usecs")?.map(|micros| Duration::from_nanos((micros * 1e3) as u64));
        Ok(Self {
            script,
            options,
            executor: executor_of(script, options)?,
            now: Time::ZERO,
            tolerance: tolerance.unwrap_or(TOLERANCE),
            tolerance_percent: number("tolerance_percent")?.unwrap_or(12.5),
            largest_deviation: Duration::ZERO,
            variables: Variables::default(),
            waiting: None,
            steps: 0,
        })
    }

    fn run(&mut self) -> Outcome<'a> {
        for statement in &self.script.statements {
            // A call that returned something wrong is reported at its own line.
            self.step(statement).map_err(|(of, stop)| (Some(of.unwrap_or(statement)), self.now, stop))?;
        }
        if let Some(waiting) = &self.waiting {
            let ([_, ends], statement) = (waiting.span, waiting.statement);
            let end = ends + self.tolerance + PATIENCE;
            self.pass_until(end).map_err(|(of, stop)| (of.or(Some(statement)), self.now, stop))?;
            if self.waiting.is_some() {
                let stop = Stop::failed("it still waits", format!("it waits at {}", seconds(self.now)));
                return Err((Some(statement), self.now, stop));
            }
        }
        Ok(())
    }

    /// Counts a step, and stops if the caller has given the script up.
    fn check_cancelled(&mut self) -> Step<()> {
        self.steps = (self.steps + 1) % STEPS;
        if self.steps == 0 && (self.options.is_cancelled)() { Err(Stop::Cancelled) } else { Ok(()) }
    }

    fn step(&mut self, statement: &'a Statement) -> Result<(), (Option<&'a Statement>, Stop)> {
        self.check_cancelled().map_err(|stop| (None, stop))?;
        let base = self.now;
        let (from, to) = match statement.when {
            When::Absolute { from, to } => (Time::ZERO + from, to.map(|to| Time::ZERO + to)),
            When::Any => (self.now, Some(Time::NEVER)),
            When::Now => (self.now, None),
            When::Relative { from, to } => (self.now + from, to.map(|to| self.now + to)),
        };
        let here = |result: Step<()>| result.map_err(|stop| (None, stop));
        if let Action::Packet(packet) = &statement.action
            && packet.direction == Direction::Outbound
        {
            return self.await_packet(packet, base, from, to);
        }
        self.pass_until(from)?;
        if matches!(statement.action, Action::Call(_) | Action::Packet(_)) {
            self.pass_until(self.now + STATEMENT)?;
        }
        match &statement.action {
            Action::Call(call) => self.call(statement, call, base),
            Action::Code(text) => {
                let (now, executor) = (self.now, &self.executor);
                here(python::run(text, &mut self.variables, &|name| executor.value(now, name)))
            }
            Action::Command(text) => here(self.commands(text, "", 0)),
            Action::Packet(packet) => {
                here(self.executor.inject(self.now, packet))?;
                self.ask_waiting()
            }
        }
    }

    /// Lets time pass, with everything that is due in it.
    fn pass_until(&mut self, end: Time) -> Result<(), (Option<&'a Statement>, Stop)> {
        while self.executor.next_timeout() <= end && !self.executor.next_timeout().is_never() {
            self.fire()?;
        }
        self.now = self.now.max(end);
        Ok(())
    }

    /// Lets the next thing happen that is not in the script.
    fn fire(&mut self) -> Result<(), (Option<&'a Statement>, Stop)> {
        self.check_cancelled().map_err(|stop| (None, stop))?;
        self.now = self.now.max(self.executor.next_timeout());
        self.executor.on_timeout(self.now);
        self.ask_waiting()
    }

    /// Waits for a packet, compares it, and judges when it came.
    fn await_packet(
        &mut self,
        packet: &Packet,
        base: Time,
        from: Time,
        to: Option<Time>,
    ) -> Result<(), (Option<&'a Statement>, Stop)> {
        let last = match to {
            Some(to) if to.is_never() => self.now + LONGEST,
            to => to.unwrap_or(from) + self.tolerance + PATIENCE,
        };
        loop {
            if let Some((at, seen)) = self.executor.expect(packet).map_err(|stop| (None, stop))? {
                return self.judge(at, base, from, to, "it was sent", &seen).map_err(|stop| (None, stop));
            }
            let next = self.executor.next_timeout();
            if next > last || next.is_never() {
                let seen = format!("nothing was sent until {}", seconds(last));
                return Err((None, Stop::failed("nothing", seen)));
            }
            self.fire()?;
        }
    }

    /// Checks whether something happened when it should have.
    fn judge(
        &mut self,
        at: Time,
        base: Time,
        from: Time,
        to: Option<Time>,
        what: &str,
        seen: &str,
    ) -> Step<()> {
        let to = to.unwrap_or(from);
        let part = from.saturating_since(base).as_nanos() as f64 * self.tolerance_percent / 100.0;
        let tolerance = self.tolerance.max(Duration::from_nanos(part as u64));
        let deviation = from.saturating_since(at).max(if to.is_never() {
            Duration::ZERO
        } else {
            at.saturating_since(to)
        });
        if deviation > tolerance {
            let until = if to > from { format!(" to {}", seconds(to)) } else { String::new() };
            let reason = format!(
                "{what} at {}, not at {}{until}; {} s are tolerated",
                seconds(at),
                seconds(from),
                length(tolerance)
            );
            return Err(Stop::failed(seen, reason));
        }
        self.largest_deviation = self.largest_deviation.max(deviation);
        Ok(())
    }

    fn call(
        &mut self,
        statement: &'a Statement,
        call: &'a Call,
        base: Time,
    ) -> Result<(), (Option<&'a Statement>, Stop)> {
        if let Some(waiting) = &self.waiting {
            let seen = format!("the call of line {} still waits", waiting.statement.line);
            return Err((Some(waiting.statement), Stop::failed("it still waits", seen)));
        }
        let reply = self.executor.call(self.now, call).map_err(|stop| (None, stop))?;
        if reply != Reply::Blocks {
            // A call that should have waited returned too early, unless its time is up.
            if let Some(ends) = call.ends {
                let ends = ends_at(statement, base, ends);
                let now = self.now;
                self.judge(now, now, ends, None, "it returned", &say(&reply)).map_err(|stop| (None, stop))?;
            }
            return check(call, &reply).map_err(|stop| (None, stop));
        }
        let Some(ends) = call.ends else {
            return Err((None, Stop::failed("it waits", "the call waits where it should return at once")));
        };
        self.waiting = Some(Waiting { statement, call, span: [self.now, ends_at(statement, base, ends)] });
        Ok(())
    }

    /// Asks the call that is waiting whether it can return now.
    fn ask_waiting(&mut self) -> Result<(), (Option<&'a Statement>, Stop)> {
        let Some(Waiting { statement, call, span: [began, ends] }) = self.waiting else { return Ok(()) };
        let at_its_line = |stop| (Some(statement), stop);
        let reply = self.executor.call(self.now, call).map_err(at_its_line)?;
        if reply == Reply::Blocks {
            return Ok(());
        }
        self.waiting = None;
        check(call, &reply).map_err(at_its_line)?;
        let now = self.now;
        self.judge(now, began, ends, None, "it returned", &say(&reply)).map_err(at_its_line)
    }

    /// Runs shell commands, and those in the files that they name; `folder` is that of the file in which they
    /// stand, relative to the script.
    fn commands(&mut self, text: &str, folder: &str, depth: u32) -> Step<()> {
        for words in shell::commands(text)? {
            let words = without_alternative(words);
            if let Some(settings) = shell::settings(&words) {
                for (name, value) in settings {
                    self.executor.set(&name, &value)?;
                }
                continue;
            }
            let parts: Vec<&str> = words.iter().map(String::as_str).collect();
            match parts[..] {
                // Settings end with the script.
                [name] if name.starts_with("/tmp/sysctl_restore_") => {}
                ["ip", "tcp_metrics", "flush", ..] => self.executor.forget_peers(),
                [name] if is_script(name) && depth < MOST_INCLUDED => {
                    let path = format!("{folder}{name}");
                    let text =
                        (self.options.read)(&path).ok_or_else(|| Stop::needs(format!("the file {path}")))?;
                    let folder = &path[..path.rfind('/').map_or(0, |at| at + 1)];
                    self.commands(&text, folder, depth + 1)?;
                }
                _ => self.executor.command(self.now, &parts)?,
            }
        }
        Ok(())
    }
}

/// Of `a || b` the command that counts: the second one where the first is a setting that Linux does not
/// have any more, so that it fails.
fn without_alternative(mut words: Vec<String>) -> Vec<String> {
    let Some(place) = words.iter().position(|word| word == "||") else { return words };
    let fails = words[..place].iter().any(|word| word.starts_with("net.ipv4.tcp_fastopen_cookies="));
    if fails { words.split_off(place + 1) } else { words }
}

/// Whether a word is the name of a shell script.
fn is_script(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "sh")
}

/// When a waiting call should return.
fn ends_at(statement: &Statement, base: Time, ends: Duration) -> Time {
    match statement.when {
        When::Absolute { .. } => Time::ZERO + ends,
        _ => base + ends,
    }
}

fn say(reply: &Reply) -> String {
    match reply {
        Reply::Blocks => "it waits".into(),
        Reply::Error(name) => format!("-1 {name}"),
        Reply::Returns(number) => number.to_string(),
    }
}

/// Checks that a call returns what it should.
fn check(call: &Call, reply: &Reply) -> Step<()> {
    let fulfilled = match (&call.result, reply) {
        (Term::Any, reply) => *reply != Reply::Blocks,
        (Term::Number(wanted), Reply::Returns(number)) => number == wanted,
        // A script need not say which error it expects.
        (Term::Number(-1), Reply::Error(name)) => call
            .error
            .as_deref()
            .is_none_or(|error| error == *name || (error, *name) == ("EWOULDBLOCK", "EAGAIN")),
        _ => false,
    };
    if fulfilled {
        Ok(())
    } else {
        Err(Stop::failed(say(reply), format!("{} returns something else", call.name)))
    }
}
