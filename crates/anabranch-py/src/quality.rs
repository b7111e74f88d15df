//! The E-model and its codecs.

use anabranch::quality::{CallParameters, Codec, EModel, Rating, emodel as g107, wideband};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use serde_json::{Map, Value};

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

/// What the keys of a call mean; every other key is a parameter of the recommendation.
fn rate(terms: &Bound<'_, PyDict>) -> Result<Rating, String> {
    let mut form = EModel::G107;
    let mut call = CallParameters { delay_ms: 0.0, loss_percent: 0.0, burst_ratio: 1.0, ie: 0.0, bpl: 4.3 };
    let mut planning = Map::new();
    for (key, value) in terms {
        let key: String = key.extract().map_err(|_| "a term's name is text".to_owned())?;
        if key == "form" {
            let name: String = value.extract().map_err(|_| "form is a name".to_owned())?;
            form = serde_json::from_value(Value::String(name)).map_err(|error| format!("form: {error}"))?;
        } else if key == "codec" {
            let name: String = value.extract().map_err(|_| "codec is a name".to_owned())?;
            let names = || Codec::ALL.map(|codec| codec.data().name).join(", ");
            let codec =
                Codec::by_name(&name).ok_or_else(|| format!("codec = `{name}` is not one of {}", names()))?;
            let data = codec.data();
            let none =
                |what: &str| format!("codec = `{name}` has no {what}: {}; give `ie` and `bpl`", data.source);
            call.ie = data.ie.ok_or_else(|| none("Ie"))?;
            call.bpl = data.bpl.ok_or_else(|| none("Bpl"))?;
        } else {
            let number: f64 = value.extract().map_err(|_| format!("{key} is a number"))?;
            if !number.is_finite() {
                return Err(format!("{key} = {number} is not a finite number"));
            }
            // The recommendations write TELR, Ie and Ie,eff; the parameters are named in lower case.
            planning.insert(key.to_lowercase(), number.into());
        }
    }
    // A call's own terms, with what is allowed; the rest belongs to the recommendation.
    for (key, target, low, high) in [
        ("delay_ms", &mut call.delay_ms, 0.0, 1e6),
        ("loss", &mut call.loss_percent, 0.0, 1.0),
        ("burst_ratio", &mut call.burst_ratio, 1e-3, 1e3),
        ("ie", &mut call.ie, 0.0, 200.0),
        ("bpl", &mut call.bpl, 1e-3, 1e3),
    ] {
        if let Some(number) = planning.remove(key).as_ref().and_then(Value::as_f64) {
            if !(low..=high).contains(&number) {
                return Err(format!("{key} = {number} is not from {low} to {high}"));
            }
            *target = number;
        }
    }
    call.loss_percent *= 100.0;
    rate_with(form, call, planning)
}

fn rate_with(form: EModel, call: CallParameters, planning: Map<String, Value>) -> Result<Rating, String> {
    if planning.is_empty() {
        return Ok(form.rate(call));
    }
    let CallParameters { delay_ms, loss_percent: ppl, burst_ratio: burst_r, ie, bpl } = call;
    match form {
        EModel::Simplified => {
            let names: Vec<&String> = planning.keys().collect();
            Err(format!("{names:?} cannot be given to the simplified form; use form = g107"))
        }
        EModel::G107 => {
            let base = g107::Parameters { ie, bpl, ppl, burst_r, ..Default::default() }.with_delay(delay_ms);
            Ok(Rating::G107(overlay(&base, planning)?.terms()))
        }
        EModel::G107Wideband => {
            let base = wideband::Parameters { ie, bpl, ppl, ..Default::default() }.with_delay(delay_ms);
            Ok(Rating::G107Wideband(overlay(&base, planning)?.terms()))
        }
    }
}

/// The parameters with some of them replaced; a name that is not one of them is an error that lists
/// them.
fn overlay<P>(base: &P, planning: Map<String, Value>) -> Result<P, String>
where
    P: serde::Serialize + serde::de::DeserializeOwned,
{
    let mut tree = serde_json::to_value(base).expect("parameters are plain numbers");
    tree.as_object_mut().expect("a struct is a table").extend(planning);
    serde_json::from_value(tree).map_err(|error| error.to_string())
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
