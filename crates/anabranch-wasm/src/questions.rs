//! The questions that a page may ask, and the answers.

use std::collections::BTreeMap;

use anabranch::scenario::Scenario;
use anabranch::sim::Simulation;
use anabranch::study::Study;
use anabranch::trace::SentPackets;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::columns::{Columns, Place};
use crate::{edits, host};

/// A question.
#[derive(Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
enum Question {
    /// Opens a scenario: its text, settings as those of `--set`, and the files that it names.
    Open {
        text: String,
        #[serde(default)]
        sets: Vec<(String, String)>,
        #[serde(default)]
        files: BTreeMap<String, String>,
    },
    /// Runs a cell of the open study, or else its scenario without the sweep. Only the named tables are kept,
    /// and all scalars unless some are named.
    Run {
        #[serde(default)]
        cell: Option<u64>,
        #[serde(default)]
        replication: u64,
        #[serde(default)]
        seed: Option<u64>,
        #[serde(default)]
        scalars: Option<Vec<String>>,
        #[serde(default)]
        tables: Vec<String>,
        /// Keeps the packets, too, so that their headers can be asked for.
        #[serde(default)]
        packets: bool,
    },
    /// The headers of a packet of the last run, which is named by its row in the table `packets`.
    Headers { packet: usize },
    /// Scenario text with another value at a key, or without the key; everything else in it stays as it is.
    Edit { text: String, path: Vec<String>, value: Value },
    /// Scenario text with another name for what is at a path; references to it elsewhere stay as they are.
    Rename { text: String, path: Vec<String>, name: String },
    /// The JSON Schema of scenarios, in which every part with a kind is a table.
    Schema,
    /// The engine's version.
    Version,
}

/// The open study, and the traces of the last run.
#[derive(Default)]
pub(crate) struct Lab {
    study: Option<Study>,
    tables: Vec<Columns>,
    packets: SentPackets,
}

#[derive(Serialize)]
struct RunReply<'a> {
    /// A scalar that a run does not have becomes null.
    scalars: IndexMap<&'a str, f64>,
    tables: IndexMap<&'static str, IndexMap<&'static str, Place<'a>>>,
}

impl Lab {
    /// Answers a question. A mistake in it also gets an answer: `{"error": sentence}`.
    pub(crate) fn answer(&mut self, question: &[u8]) -> Vec<u8> {
        self.tables = Vec::new();
        let answer = serde_json::from_slice(question)
            .map_err(|error| format!("not a question: {error}"))
            .and_then(|question| self.answer_to(question));
        answer.unwrap_or_else(|sentence| bytes(&json!({ "error": sentence })))
    }

    fn answer_to(&mut self, question: Question) -> Result<Vec<u8>, String> {
        match question {
            Question::Edit { text, path, value } => {
                Ok(bytes(&json!({ "text": edits::edited(&text, &path, &value)? })))
            }
            Question::Rename { text, path, name } => {
                Ok(bytes(&json!({ "text": edits::renamed(&text, &path, &name)? })))
            }
            Question::Open { text, sets, files } => {
                // The study that was open is closed, even if this one is not valid.
                self.study = None;
                anabranch::study::give_files(files);
                let study = Study::parse(&text, &sets, "".as_ref()).map_err(|error| error.to_string())?;
                let reply = described(&study);
                self.study = Some(study);
                Ok(reply)
            }
            Question::Headers { packet } => {
                let headers = self.packets.headers(packet).ok_or("there is no such packet")?;
                Ok(bytes(&json!({ "headers": headers })))
            }
            Question::Run { cell, replication, seed, scalars, tables, packets } => {
                self.packets = SentPackets::default();
                let study = self.study.as_ref().ok_or("nothing is open")?;
                let mut scenario = match cell {
                    Some(cell) => cell_of(study, cell)?,
                    None => study.scenario.clone(),
                };
                scenario.seed = seed.unwrap_or(scenario.seed);
                scenario.run.max_memory.0 = scenario.run.max_memory.0.min(MOST_MEMORY_BYTES);
                let mut simulation = Simulation::build(&scenario, replication, !tables.is_empty())
                    .map_err(|error| error.to_string())?;
                if packets {
                    simulation.keep_packets();
                }
                let (start, limit) = (host::now_s(), simulation.max_wall_time());
                let mut guard = || {
                    (host::now_s() - start > limit.as_secs_f64())
                        .then(|| format!("run.max_wall_time = {limit} is over"))
                };
                let outcome = simulation.run(&mut guard).map_err(|error| error.to_string())?;
                let is_wanted =
                    |name: &str| scalars.as_ref().is_none_or(|list| list.iter().any(|one| one == name));
                let kept =
                    outcome.tables.into_iter().filter(|table| tables.iter().any(|name| name == table.name));
                self.tables = kept.map(Columns::from).collect();
                self.packets = outcome.packets;
                Ok(bytes(&RunReply {
                    scalars: outcome.row.scalars().filter(|(name, _)| is_wanted(name)).collect(),
                    tables: self.tables.iter().map(|table| (table.name(), table.places())).collect(),
                }))
            }
            Question::Schema => Ok(bytes(&anabranch::scenario::tables())),
            Question::Version => Ok(bytes(&json!({ "version": anabranch::VERSION }))),
        }
    }
}

fn cell_of(study: &Study, cell: u64) -> Result<Scenario, String> {
    let cells = study.sweep.cell_count();
    if cell >= cells {
        return Err(format!("cell {cell} is not in the sweep, which has {cells}"));
    }
    study.cell(cell).map_err(|error| error.to_string())
}

/// The most memory of a run, since a page shares its memory with others, and an instance has 4 GB.
const MOST_MEMORY_BYTES: u64 = 1_000_000_000;

/// The description of a study for a page.
fn described(study: &Study) -> Vec<u8> {
    let axes: Vec<Value> = study
        .sweep
        .columns()
        .iter()
        .map(|axis| json!({ "name": axis.name, "labels": axis.labels }))
        .collect();
    bytes(&json!({
        "name": study.scenario.name,
        "scenario": study.scenario,
        "toml": study.to_toml(),
        "cells": study.sweep.cell_count(),
        "axes": axes,
        "replications": study.sweep.config().replications,
        "metrics": study.sweep.config().metrics,
        "sweep": study.sweep.config(),
    }))
}

fn bytes(answer: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(answer).expect("an answer is a tree of plain values")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIO: &str = include_str!("../../../scenarios/failover.toml");

    fn asked(lab: &mut Lab, question: &Value) -> Value {
        serde_json::from_slice(&lab.answer(&bytes(question))).unwrap()
    }

    #[test]
    fn a_scenario_is_opened_and_run() {
        let mut lab = Lab::default();
        let sets = json!([["run.duration", "5 s"]]);
        let opened = asked(&mut lab, &json!({ "ask": "open", "text": SCENARIO, "sets": sets }));
        assert_eq!(opened["name"], json!("failover"));
        assert_eq!(opened["scenario"]["run"]["duration"], json!("5 s"));
        let reply = lab.answer(&bytes(&json!({ "ask": "run", "tables": ["paths"] })));
        let sets = [("run.duration".to_owned(), "5 s".to_owned())];
        let scenario = Study::parse(SCENARIO, &sets, "".as_ref()).unwrap().scenario;
        let outcome = Simulation::build(&scenario, 0, true).unwrap().run(&mut || None).unwrap();
        // Serialised as text, to keep every digit.
        let scalars = serde_json::to_string(&outcome.row.scalars().collect::<IndexMap<_, _>>()).unwrap();
        assert!(std::str::from_utf8(&reply).unwrap().contains(&scalars), "{scalars}");
        let run: Value = serde_json::from_slice(&reply).unwrap();
        let rows = outcome.tables.iter().find(|table| table.name == "paths").unwrap().columns[0].1.len();
        assert_eq!(run["tables"]["paths"]["time_s"]["length"], json!(rows));
        assert_eq!(run["tables"].as_object().unwrap().len(), 1);
    }

    #[test]
    fn headers_are_those_of_the_last_run_that_kept_its_packets() {
        let mut lab = Lab::default();
        asked(&mut lab, &json!({ "ask": "open", "text": SCENARIO, "sets": [["run.duration", "5 s"]] }));
        asked(&mut lab, &json!({ "ask": "run", "tables": ["packets"], "packets": true }));
        let ask = json!({ "ask": "headers", "packet": 0 });
        let headers = asked(&mut lab, &ask);
        assert_eq!(headers["headers"][2]["name"], json!("INIT"));
        assert_eq!(headers["headers"][2]["fields"][0][0], json!("initiate tag"));
        asked(&mut lab, &json!({ "ask": "run", "tables": ["packets"] }));
        assert_eq!(asked(&mut lab, &ask)["error"], json!("there is no such packet"));
    }

    #[test]
    fn mistakes_are_sentences() {
        let mut lab = Lab::default();
        let error =
            |lab: &mut Lab, question: Value| asked(lab, &question)["error"].as_str().unwrap().to_owned();
        assert_eq!(error(&mut lab, json!({ "ask": "run" })), "nothing is open");
        let sentence = error(&mut lab, json!({ "ask": "open", "text": "seed = -1" }));
        assert!(sentence.starts_with("4 mistakes\n  line 1: seed: "), "{sentence}");
        assert!(error(&mut lab, json!({ "ask": "nothing" })).starts_with("not a question: "));
        asked(&mut lab, &json!({ "ask": "open", "text": SCENARIO }));
        assert!(error(&mut lab, json!({ "ask": "run", "cell": 1_000_000 })).starts_with("cell 1000000 "));
    }

    #[test]
    fn files_are_those_that_the_page_hands_over() {
        let mut lab = Lab::default();
        let text = "
            include = [\"wan.toml\"]
            flows.f = { from = \"a\", to = \"b\", paths = [\"wan\"], transport.kind = \"udp\", app.kind = \"voip\" }
        ";
        let wan = "links.wan = { ends = [\"a\", \"b\"], rate = { mahimahi = \"rate.mahi\" } }\npaths.wan.via = [\"wan\"]";
        let files = json!({ "wan.toml": wan, "rate.mahi": "1\n2\n3\n" });
        let opened = asked(&mut lab, &json!({ "ask": "open", "text": text, "files": files }));
        assert!(opened.get("error").is_none(), "{opened}");
        let sentence = asked(&mut lab, &json!({ "ask": "open", "text": text, "files": { "wan.toml": wan } }));
        assert!(sentence["error"].as_str().unwrap().contains("rate.mahi"), "{sentence}");
    }
}
