//! The E-model and its codecs.

use anabranch_transport::quality::{
    CallParameters, Codec, EModel, Rating, emodel as g107, planning, wideband,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use serde_json::Value;

use crate::ScenarioError;

type Row = (String, Py<PyAny>, String);

/// The E-model, term by term.
#[pyfunction]
pub(crate) fn emodel(py: Python<'_>, terms: &Bound<'_, PyDict>) -> PyResult<Vec<Row>> {
    let rating = rate(terms).map_err(ScenarioError::new_err)?;
    let mut rows =
        vec![("Model".to_owned(), rating.model().into_pyobject(py)?.into_any().unbind(), String::new())];
    for (symbol, value, meaning) in rating.entries() {
        rows.push((symbol.to_owned(), value.into_pyobject(py)?.into_any().unbind(), meaning.to_owned()));
    }
    Ok(rows)
}

/// Rates a call. Some keys describe the call; every other key is a parameter of the recommendation.
fn rate(terms: &Bound<'_, PyDict>) -> Result<Rating, String> {
    let mut form = EModel::G107;
    let mut call = CallParameters { delay_ms: 0.0, loss_percent: 0.0, burst_ratio: 1.0, ie: 0.0, bpl: 4.3 };
    let mut loss = 0.0;
    let mut others = Vec::new();
    // The codec's values come first, since `ie` and `bpl` may replace them.
    if let Some(name) = terms.get_item("codec").ok().flatten() {
        let name: String = name.extract().map_err(|_| "codec is a name".to_owned())?;
        let names = || Codec::ALL.map(|codec| codec.data().name).join(", ");
        let codec =
            Codec::by_name(&name).ok_or_else(|| format!("codec = `{name}` is not one of {}", names()))?;
        let data = codec.data();
        let missing = |what: &str| format!("codec = `{name}` has no {what}: {}", data.source);
        let is_given = |key: &str| terms.contains(key).unwrap_or(false);
        call.ie = data.ie.or(is_given("ie").then_some(0.0)).ok_or_else(|| missing("Ie; give `ie`"))?;
        call.bpl = data.bpl.or(is_given("bpl").then_some(4.3)).ok_or_else(|| missing("Bpl; give `bpl`"))?;
    }
    for (key, value) in terms {
        let key: String = key.extract().map_err(|_| "a term's name is text".to_owned())?;
        if key == "form" {
            let name: String = value.extract().map_err(|_| "form is a name".to_owned())?;
            form = serde_json::from_value(Value::String(name)).map_err(|error| format!("form: {error}"))?;
            continue;
        }
        if key == "codec" {
            continue;
        }
        let number: f64 = value.extract().map_err(|_| format!("{key} is a number"))?;
        let (target, range) = match key.to_lowercase().as_str() {
            "delay_ms" => (&mut call.delay_ms, planning::T),
            "loss" => (&mut loss, 0.0..=1.0),
            "burst_ratio" => (&mut call.burst_ratio, planning::BURST_R),
            "ie" => (&mut call.ie, planning::IE),
            "bpl" => (&mut call.bpl, planning::BPL),
            _ => {
                others.push((key, number));
                continue;
            }
        };
        planning::check(&key, number, &range)?;
        *target = number;
    }
    call.loss_percent = loss * 100.0;
    rate_with(form, call, &others)
}

fn rate_with(form: EModel, call: CallParameters, others: &[(String, f64)]) -> Result<Rating, String> {
    let CallParameters { delay_ms, loss_percent: ppl, burst_ratio: burst_r, ie, bpl } = call;
    match (form, others) {
        (form, []) => Ok(form.rate(call)),
        (EModel::Simplified, [(name, _), ..]) => {
            Err(format!("{name} cannot be given to the simplified form; use form = g107"))
        }
        (EModel::G107, _) => {
            let mut values =
                g107::Parameters { ie, bpl, ppl, burst_r, ..Default::default() }.with_delay(delay_ms);
            others.iter().try_for_each(|(name, value)| values.set(name, *value))?;
            Ok(Rating::G107(values.terms()))
        }
        (EModel::G107Wideband, _) => {
            let mut values = wideband::Parameters { ie, bpl, ppl, ..Default::default() }.with_delay(delay_ms);
            others.iter().try_for_each(|(name, value)| values.set(name, *value))?;
            Ok(Rating::G107Wideband(values.terms()))
        }
    }
}

/// The codec table.
#[pyfunction]
pub(crate) fn codecs(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for codec in Codec::ALL {
        let data = codec.data();
        let dict = PyDict::new(py);
        dict.set_item("name", data.name)?;
        dict.set_item("kbit_per_s", f64::from(data.frame_bits) / data.frame.as_secs_f64() / 1e3)?;
        dict.set_item("frame_ms", data.frame.as_millis_f64())?;
        dict.set_item("ie", data.ie)?;
        dict.set_item("bpl", data.bpl)?;
        dict.set_item("source", data.source)?;
        list.append(dict)?;
    }
    Ok(list)
}
