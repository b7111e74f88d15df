//! Plug-ins of a program around the library: here, of this test, in which classes are Rust's.

use std::path::Path;
use std::sync::Once;

use anabranch::sim::{Emulation, Simulation};
use anabranch::study::Study;
use anabranch_transport::cc::{self, AckEvent, CongestionControl, CongestionEvent, ControlState, SendLimits};
use anabranch_transport::plugin::{self, Config, Host, Role};

const NETWORK: &str = r#"
    run.duration = "10 s"
    links.a = { ends = ["x", "y"], rate = "1 Mbit/s", delay = "20 ms" }
    paths.p.via = ["a"]
    [flows.f]
    from = "x"
    to = "y"
    paths = ["p"]
    app.kind = "bulk"
"#;

/// Knows `test:Fixed`, and `test:Breaks`, which fails with its tenth acknowledgement.
struct Classes;

impl Host for Classes {
    fn check(&self, config: &Config, role: Role) -> Result<(), String> {
        match (config.class.as_str(), role) {
            ("test:Fixed" | "test:Breaks", Role::CongestionControl) => Ok(()),
            (other, _) => Err(format!("class = \"{other}\" is not there")),
        }
    }

    fn source(&self, class: &str) -> String {
        format!("{class}@1")
    }
}

#[derive(Debug)]
struct Fixed {
    breaks: bool,
    acknowledgements: u32,
}

impl CongestionControl for Fixed {
    fn on_ack(&mut self, _event: &AckEvent) {
        self.acknowledgements += 1;
        if self.breaks && self.acknowledgements == 10 {
            plugin::fail("it breaks".into());
        }
    }
    fn on_congestion(&mut self, _event: &CongestionEvent) {}
    fn limits(&self) -> SendLimits {
        SendLimits::window(14_600)
    }
    fn state(&self) -> ControlState {
        ControlState { cwnd: 14_600, ssthresh: 14_600, phase: "fixed" }
    }
}

fn study(class: &str) -> Result<Study, String> {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        plugin::register(&Classes);
        cc::plugin::MAKER.register(|config, _| {
            Box::new(Fixed { breaks: config.class == "test:Breaks", acknowledgements: 0 })
        });
    });
    let transport = format!("transport = {{ kind = 'tcp', cc = {{ kind = 'python', class = '{class}' }} }}");
    Study::parse(&format!("{NETWORK}\n{transport}"), &[], Path::new("")).map_err(|error| error.to_string())
}

#[test]
fn a_plug_in_controls_a_flow() {
    let study = study("test:Fixed").unwrap();
    let run = Simulation::build(&study.scenario, 0, false).unwrap();
    let row = run.run(&mut || None).unwrap().row;
    // 14,600 bytes fill 1 Mbit/s for 40 ms: the window does not empty.
    assert!(row.value("f.goodput_kbit_per_s").unwrap() > 900.0);
}

#[test]
fn a_failure_ends_the_run_at_its_event_and_no_other_run() {
    let scenario = study("test:Breaks").unwrap().scenario;
    let run = || Simulation::build(&scenario, 0, false).unwrap().run(&mut || None);
    let error = run().unwrap_err().to_string();
    assert!(error.starts_with("the run was stopped at ") && error.ends_with(": it breaks"), "{error}");
    assert_eq!(run().unwrap_err().to_string(), error);
    let fixed = study("test:Fixed").unwrap().scenario;
    assert!(Simulation::build(&fixed, 0, false).unwrap().run(&mut || None).is_ok());
}

#[test]
fn an_unknown_class_is_refused_by_key_and_an_emulation_refuses_all() {
    let error = study("test:Other").unwrap_err();
    assert_eq!(error, "line 11: flows.f.transport.cc.class = \"test:Other\" is not there");
    let Err(error) = Emulation::build(&study("test:Fixed").unwrap().scenario, 0) else {
        panic!("an emulation has a plug-in");
    };
    let sentence = "kind = \"python\" is for simulations: an emulation and a testbed run in real time";
    assert_eq!(error.to_string(), sentence);
}

#[test]
fn a_plug_in_is_part_of_the_hash() {
    let hash = |class: &str| study(class).unwrap().hash();
    assert_eq!(hash("test:Fixed"), hash("test:Fixed"));
    assert_ne!(hash("test:Fixed"), hash("test:Breaks"));
}
