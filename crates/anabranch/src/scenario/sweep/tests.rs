//! The cells of sweeps, and the errors for sweeps without cells.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;

fn try_sweep(text: &str) -> Result<Sweep, String> {
    let config = toml::from_str(text).map_err(|error| error.to_string())?;
    Sweep::new(config).map_err(|error| error.to_string())
}

fn sweep(text: &str) -> Sweep {
    try_sweep(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The key of every cell, as text.
fn keys(sweep: &Sweep) -> Vec<String> {
    let value = |value: &AxisValue| match value {
        AxisValue::Flag(flag) => flag.to_string(),
        AxisValue::Number(number) => number.to_string(),
        AxisValue::Text(text) => text.clone(),
    };
    let key = |cell| {
        let pairs = sweep.key(cell);
        pairs.iter().map(|(name, of)| format!("{name}{}", value(of))).collect::<Vec<_>>().join(" ")
    };
    (0..sweep.cell_count()).map(key).collect()
}

const ABC: &str = "
    axes.a = { set = 'x', values = [1, 2] }
    axes.b = { set = 'y', values = [1, 2, 3] }
    axes.c = { cases.off = {}, cases.on = { z = true } }
";

#[test]
fn the_last_axis_varies_fastest() {
    let sweep = sweep("axes.a = { set = 'x', values = [1, 2] }\naxes.b = { set = 'y', values = [1, 2, 3] }");
    assert_eq!(keys(&sweep), ["a1 b1", "a1 b2", "a1 b3", "a2 b1", "a2 b2", "a2 b3"]);
    assert_eq!(sweep.parts()[0].representatives(), [(0, 0, 0), (0, 1, 3), (1, 0, 0), (1, 1, 1), (1, 2, 2)]);
    let mut tree = json!({ "x": 0, "y": 0 });
    sweep.apply(5, &mut tree).unwrap();
    assert_eq!(tree, json!({ "x": 2, "y": 3 }));
    assert_eq!(keys(&Sweep::default()), [""]);
}

#[test]
fn a_setting_that_no_cell_has_is_an_error() {
    let check = |text: &str, path: &str| {
        let sets = [("seed".to_owned(), "2".to_owned()), (path.to_owned(), "1".to_owned())];
        sweep(text).check_reached(&sets).map_err(|error| error.to_string())
    };
    let error = |path: &str, axis: &str| {
        Err(format!(
            "{path}: it changes nothing, since `{axis}` sets it in every cell; change the values there"
        ))
    };
    assert_eq!(check(ABC, "y"), error("y", "sweep.axes.b"));
    assert_eq!(check(ABC, "y.within"), error("y.within", "sweep.axes.b"));
    // Only one of the cases sets `z`, and the others are no part of what an axis sets.
    for path in ["z", "yy", "w", "sweep.replications"] {
        assert_eq!(check(ABC, path), Ok(()));
    }
    let cases = "axes.c = { cases.off = { z = false }, cases.on = { z = true } }";
    assert_eq!(check(cases, "z"), error("z", "sweep.axes.c"));
    // A table that is set is there in what an axis leaves as it is.
    assert_eq!(check("axes.a = { set = 'x.kind', values = [1, 2] }", "x"), Ok(()));
    let listed = "axes.a = { set = 'x' }\naxes.b = { set = 'y' }\ncells = [{ a = 1, b = 2 }, { b = 3 }]";
    assert_eq!(check(listed, "x"), Ok(()));
    assert_eq!(check(listed, "y"), error("y", "sweep.axes.b"));
    let studies = "axes.a = { set = 'x', values = [1, 2] }\nstudies.s.axes.b = { set = 'y', values = [1] }";
    assert_eq!(check(studies, "x"), Ok(()));
    assert_eq!(
        check(&format!("{studies}\nstudies.s.axes.c = {{ set = 'x', values = [3] }}"), "x"),
        error("x", "sweep.axes.a")
    );
}

#[test]
fn values_are_numbers_in_base_units() {
    let numbers = |text: &str| sweep(text).columns()[0].values.clone();
    let number = AxisValue::Number;
    assert_eq!(numbers("axes.a = { set = 'x', values = ['10 s', '20 ms'] }"), [number(10.0), number(0.02)]);
    assert_eq!(numbers("axes.a = { cases.'2 %' = {}, cases.'10 %' = {} }"), [number(0.02), number(0.1)]);
    assert_eq!(numbers("axes.a = { set = 'x', values = [true] }"), [AxisValue::Flag(true)]);
    let text = AxisValue::Text;
    assert_eq!(
        numbers("axes.a = { set = 'x', values = ['off', '1 s'] }"),
        [text("off".into()), text("1 s".into())]
    );
    // Across sub-studies, an axis with numbers in one and text in another has text.
    let text = "axes.a = { set = 'x', values = ['1 s'] }\nstudies.s.axes.a = { set = 'x', values = ['off'] }";
    assert_eq!(keys(&sweep(text)), ["a1 s", "aoff"]);
}

#[test]
fn metrics_are_patterns() {
    let sweep = sweep("metrics = ['call.*', 'link.*.lost']");
    assert!(sweep.keeps("call.mos") && sweep.keeps("link.p0.forward.lost"));
    assert!(!sweep.keeps("caller.mos") && !sweep.keeps("link.p0.forward.lost_packets"));
    assert!(Sweep::default().keeps("anything"));
}

#[test]
fn axes_advance_together() {
    let text = "zip = [['c', 'a']]";
    assert_eq!(
        keys(&sweep(&format!("{text}\n{ABC}"))),
        ["a1 b1 coff", "a1 b2 coff", "a1 b3 coff", "a2 b1 con", "a2 b2 con", "a2 b3 con"]
    );
    let message = |zip: &str| try_sweep(&format!("zip = {zip}\n{ABC}")).unwrap_err();
    assert_eq!(
        message("[['a', 'b']]"),
        "sweep.zip.0: `a` has 2 values and `b` has 3; axes that advance together have equally many"
    );
    assert_eq!(message("[['a', 'd']]"), "sweep.zip.0: there is no axis `d`; there are `a`, `b`, `c`");
    assert_eq!(message("[['a']]"), "sweep.zip.0: a group has two axes or more");
    assert_eq!(message("[['a', 'c'], ['a', 'b']]"), "sweep.zip.1: `a` is in `zip` twice; leave one out");
    assert_eq!(message("[['a', 'a']]"), "sweep.zip.0: `a` is in `zip` twice; leave one out");
}

const LISTED: &str = "axes.a = { set = 'x' }\naxes.c = { cases.off = {}, cases.on = { z = true } }";

#[test]
fn cells_are_listed() {
    let listed =
        sweep(&format!("{LISTED}\ncells = [{{ a = '2 s', c = 'on' }}, {{ a = '1 s' }}, {{ c = 'on' }}]"));
    assert_eq!(keys(&listed), ["a2 con", "a1", "con"]);
    let mut tree = json!({});
    listed.apply(0, &mut tree).unwrap();
    assert_eq!(tree, json!({ "x": "2 s", "z": true }));
    let mut tree = json!({});
    listed.apply(1, &mut tree).unwrap();
    assert_eq!(tree, json!({ "x": "1 s" }));
    assert_eq!(listed.parts()[0].representatives(), [(0, 0, 0), (1, 1, 0), (0, 1, 1)]);

    let message = |text: &str| try_sweep(&format!("{text}\n{LISTED}")).unwrap_err();
    assert_eq!(
        message("cells = [{ a = 1, c = 'no' }]"),
        "sweep.cells.0.c: `no` is none of its cases; there are `off`, `on`"
    );
    assert_eq!(message("cells = [{ b = 1 }]"), "sweep.cells.0: there is no axis `b`; there are `a`, `c`");
    assert_eq!(message("cells = [{ c = 'on' }]"), "sweep.axes.a: no cell has it; leave it out");
    assert_eq!(
        message("cells = [{ a = 1, c = 'on' }, { c = 'on', a = 1 }]"),
        "sweep.cells.1: it is the same as cell 0; leave one out"
    );
    assert_eq!(
        message("zip = [['a', 'c']]\ncells = [{ a = 1, c = 'on' }]"),
        "sweep.zip: `cells` names every cell already; leave out one of them"
    );
    assert_eq!(
        try_sweep("axes.a = { set = 'x', values = [1] }\ncells = [{ a = 1 }]").unwrap_err(),
        "sweep.axes.a: with `cells`, which has the values, an axis has either `set` alone or `cases`"
    );
}

#[test]
fn conditions_exclude_cells() {
    let with = |conditions: &str| try_sweep(&format!("where = {conditions}\n{ABC}"));
    assert_eq!(keys(&with("['a < b', 'c == \"on\"']").unwrap()), ["a1 b2 con", "a1 b3 con", "a2 b3 con"]);
    assert_eq!(
        with("['a > b + 5']").unwrap_err(),
        "sweep.where: no cell is left; the conditions exclude all of them"
    );
    assert_eq!(
        with("['a > 0', 'a > d']").unwrap_err(),
        "sweep.where.1: `a > d`, character 5: `d` is not an axis; there are `a`, `b`, `c`; text stands in quotes"
    );
    // A condition that names an axis that a cell lacks does not apply to that cell.
    let listed =
        format!("where = ['a > 1 s']\n{LISTED}\ncells = [{{ a = '1 s' }}, {{ a = '2 s' }}, {{ c = 'on' }}]");
    assert_eq!(keys(&sweep(&listed)), ["a2", "con"]);
    let large = "where = ['a > 0']\naxes.a = { set = 'x', range = { from = 1, to = 10000, step = 1 } }\n\
                 axes.b = { set = 'y', range = { from = 1, to = 10000, step = 1 } }";
    assert_eq!(
        try_sweep(large).unwrap_err(),
        "sweep.where: 100000000 combinations are too many to ask one by one; use at most 20000000"
    );
}

#[test]
fn sub_studies_stand_one_after_another() {
    let text = format!(
        "replications = 5\nuntil = {{ metric = 'm.x', half_width = 0.1 }}\n{ABC}
        studies.one = {{ replications = 3, axes.a = {{ set = 'x', values = [7] }} }}
        studies.base = {{}}
        studies.two = {{ where = ['d < 2'], axes.d = {{ set = 'x', values = [1, 2] }} }}"
    );
    let sweep = sweep(&text);
    assert_eq!(sweep.cell_count(), 12 + 1 + 1 + 1);
    let of = |cell| sweep.part_of(cell).0;
    assert_eq!((of(0).name.as_str(), of(11).name.as_str()), ("main", "main"));
    assert_eq!((of(12).name.as_str(), of(12).replications), ("one", 3));
    assert_eq!((of(13).name.as_str(), of(14).name.as_str()), ("base", "two"));
    assert!(of(12).until.is_none(), "its own replications are enough");
    assert_eq!(of(14).until.as_ref().map(|until| until.most), Some(1000));
    assert_eq!(keys(&sweep)[12..], ["a7", "", "d1"]);
    assert_eq!(
        sweep.columns().iter().map(|axis| axis.name.as_str()).collect::<Vec<_>>(),
        ["a", "b", "c", "d"]
    );

    // Without axes, the sweep itself has no cell.
    let alone = "replications = 5\nstudies.one.axes.a = { set = 'x', values = [7] }";
    assert_eq!(try_sweep(alone).unwrap().parts().len(), 1);
    let error = try_sweep("studies.main = {}").unwrap_err();
    assert!(error.starts_with("sweep.studies.main: not a name;"), "{error}");
    assert_eq!(
        try_sweep("studies.s = { axes.a = { set = 'x', range = { from = 2, to = 1, count = 2 } } }")
            .unwrap_err(),
        "sweep.studies.s.axes.a.range.from: `2` is above `to`, which is `1`; swap them"
    );
}

const DESIGN: &str = "
    design = { kind = 'sobol', points = 4 }
    axes.a = { set = 'x', range = { from = '0 ms', to = '1 s' } }
    axes.b = { set = 'y', log_range = { from = 1, to = 100 } }
    axes.c = { cases.off = {}, cases.on = { z = true } }
    axes.d = { set = 'w', range = { from = 0, to = 3 } }
";

#[test]
fn a_design_gets_its_points() {
    let open = sweep(DESIGN);
    assert_eq!(open.cell_count(), 0);
    assert!(open.parts()[0].is_open());
    let points = [vec![0.0, 0.0, 0.0, 0.0], vec![0.25, 0.5, 0.499, 0.24], vec![1.0, 1.0, 1.0, 1.0]];
    let full = open.with_points("main", &points).unwrap();
    assert_eq!(keys(&full), ["a0 b1 coff d0", "a0.25 b10 coff d0", "a1 b100 con d3"]);
    assert!(!full.parts()[0].is_open());
    // Its TOML text describes the same sweep.
    let text = toml::to_string(full.config()).unwrap();
    assert_eq!(keys(&sweep(&text)), keys(&full));
    assert_eq!(full.with_points("main", &points[..1]).unwrap().cell_count(), 1);

    let message = |part: &str, points: &[Vec<f64>]| open.with_points(part, points).unwrap_err().to_string();
    assert_eq!(message("main", &[vec![0.5; 3]]), "point 0 of the design is not 4 numbers from 0 to 1");
    assert_eq!(message("main", &[vec![1.5; 4]]), "point 0 of the design is not 4 numbers from 0 to 1");
    assert_eq!(message("other", &points), "there is no sub-study `other`");
    assert!(message("main", &[]).contains("no points"));
    let conditioned = sweep(&format!("where = ['a < 0.5 s']\n{DESIGN}"));
    assert_eq!(conditioned.with_points("main", &points).unwrap().cell_count(), 2);
}

const SALTELLI: &str = "
    design = { kind = 'saltelli', points = 2 }
    axes.a = { set = 'x', range = { from = 0.0, to = 1 } }
    axes.b = { set = 'y', values = ['off', 'on'] }
";

#[test]
fn the_points_of_saltelli_know_their_cells() {
    let open = sweep(SALTELLI);
    assert!(open.parts()[0].is_open() && open.parts()[0].point_cells().is_empty());
    // A, A with a of B, A with b of B, B.
    let points = [[0.25, 0.1], [0.5, 0.1], [0.25, 0.9], [0.5, 0.9]];
    // Here b is the same in A and B, so that two pairs of points share a cell each; A is one of those above.
    let more = [[0.5, 0.9], [0.75, 0.9], [0.5, 0.7], [0.75, 0.7]];
    let points: Vec<Vec<f64>> = points.iter().chain(&more).map(|point| point.to_vec()).collect();
    let full = open.with_points("main", &points).unwrap();
    assert_eq!(keys(&full), ["a0.25 boff", "a0.5 boff", "a0.25 bon", "a0.5 bon", "a0.75 bon"]);
    assert_eq!(full.parts()[0].point_cells(), [0, 1, 2, 3, 3, 4, 3, 4]);
    // Its TOML text describes the same sweep.
    let text = toml::to_string(full.config()).unwrap();
    let again = sweep(&text);
    assert_eq!((keys(&again), again.parts()[0].point_cells()), (keys(&full), full.parts()[0].point_cells()));
    // The other designs keep a point for each cell.
    let other = sweep(&SALTELLI.replace("saltelli", "sobol")).with_points("main", &points).unwrap();
    assert_eq!((keys(&other), other.parts()[0].point_cells()), (keys(&full), &[][..]));

    let message = |points: &[Vec<f64>]| open.with_points("main", points).unwrap_err().to_string();
    assert_eq!(
        message(&points[..7]),
        "sweep.cells: `saltelli` with 2 points of 2 axes has 8 here, and there are 7; leave out `cells`"
    );
    let mut wrong = points.clone();
    wrong.swap(5, 6);
    assert_eq!(
        message(&wrong),
        "sweep.cells.5: `saltelli` has cell 4 here with the `a` of cell 7; leave out `cells`"
    );
}

#[test]
fn mistakes_are_named() {
    let message = |text: &str| try_sweep(text).unwrap_err();
    assert_eq!(
        message("axes.a = { set = 'x', values = [] }"),
        "sweep.axes.a: the axis is empty; give it `values`, `range`, `log_range` or `cases`"
    );
    assert!(message("axes.a = { values = [1] }").contains("either `set` with one of"));
    assert!(message("axes.a = { set = 'x', values = [1], cases.b = {} }").contains("either"));
    assert!(
        message("axes.a = { set = 'x', values = [1], range = { from = 1, to = 2, count = 2 } }")
            .contains("either")
    );
    assert_eq!(
        message("axes.a = { set = 'x', values = [1, 2, 1] }"),
        "sweep.axes.a: values 0 and 2 are both `1`; leave one out"
    );
    assert_eq!(
        message("axes.a = { set = 'x', values = [1, 2] }\naxes.b = { set = ['y', 'x'], values = [3] }"),
        "sweep.axes.b: it sets `x`, as `a` does; leave one out"
    );
    assert!(message("replications = 0").contains("use 1 or more"));
    assert!(message("axes.'a b' = { set = 'x', values = [1] }").starts_with("sweep.axes.a b: not a name"));
    assert_eq!(
        message("axes.a = { set = 'x', range = { from = 1, to = 2 } }"),
        "sweep.axes.a: range: give it either `step` or `count`"
    );
    assert_eq!(
        message("axes.a = { set = 'x', log_range = { from = 1, to = 2 } }"),
        "sweep.axes.a: log_range: give it `count`"
    );
    assert!(
        message("traces = ['frames', 'farmes']")
            .starts_with("sweep.traces.1: `farmes` is not a table of traces; there are `events`")
    );
    let until =
        |until: &str| message(&format!("until = {{ metric = 'call.mos', half_width = 0.1, {until} }}"));
    assert_eq!(until("least = 1"), "sweep.until.least: 1 give no interval; use 2 or more");
    assert_eq!(until("most = 5"), "sweep.until.most: 5 is below `least`, which is 10; use 10 or more");
    assert_eq!(
        until("level = 95.0"),
        "sweep.until.level: 95 is out of range; it must be above 0 and below 1"
    );
    assert!(message("until = { metric = 'call.*', half_width = 1 }").contains("is not one scalar"));
    assert!(message("until = { metric = 'call.mos', half_width = 0 }").contains("use more than 0"));
    assert_eq!(
        message("metrics = ['run.*']\nuntil = { metric = 'call.mos', half_width = 1 }"),
        "sweep.until.metric: `call.mos` is not kept; add it to `sweep.metrics`"
    );
    let design = |design: &str| {
        message(&format!("design = {{ {design} }}\naxes.a = {{ set = 'x', range = {{ from = 1, to = 2 }} }}"))
    };
    assert_eq!(
        design("kind = 'sobol', points = 100"),
        "sweep.design.points: a Sobol' sequence is balanced at powers of two, and 100 is none; use 64 or 128"
    );
    assert!(design("kind = 'latin_hypercube', points = 0").contains("from 1 to 1048576"));
    assert!(design("kind = 'saltelli', points = 100").contains("100 is none; use 64 or 128"));
    assert_eq!(
        design("kind = 'saltelli', points = 64"),
        "sweep.design.kind: `saltelli` tells axes apart, and there are 1; give 2 `axes` or more"
    );
    assert_eq!(
        message(&SALTELLI.replace("points = 2", "points = 524288")),
        "sweep.design.points: 524288 points make 2097152 cells with 2 axes, which is more than 1048576; \
         use at most 262144"
    );
    assert_eq!(
        message(&format!("where = ['a < 0.5']\n{SALTELLI}")),
        "sweep.where: `saltelli` needs every value of an axis with every value of the others; leave out \
         `where` or use `sobol`"
    );
    assert_eq!(
        message("design = { kind = 'sobol', points = 4 }"),
        "sweep.design: there is no axis to spread points over; give `axes`"
    );
    assert!(message(&format!("zip = [['a', 'b']]\n{DESIGN}")).contains("leave out `zip` or `design`"));
    assert_eq!(
        message(
            "design = { kind = 'sobol', points = 4 }\naxes.a = { set = 'x', range = { from = 1, to = 2, count = 2 } }"
        ),
        "sweep.axes.a: range: the design chooses the values; leave out `step` and `count`"
    );
    let axis = |name: char| {
        format!("axes.{name} = {{ set = '{name}', range = {{ from = 1, to = 10000, step = 1 }} }}\n")
    };
    assert_eq!(
        message(&('a'..='d').map(axis).collect::<String>()),
        "sweep.axes.d: the sweep has more than 2^40 cells; use fewer values"
    );
}

proptest! {
    /// Cells and positions are a bijection between the numbers and the combinations that are kept.
    #[test]
    fn every_cell_is_there_once(lengths in prop::collection::vec(1_usize..5, 1..5), zipped in any::<bool>(), limit in 0_usize..10) {
        let name = |axis: usize| char::from(b'a' + axis as u8);
        let mut text = String::new();
        let zipped = zipped && lengths.len() > 1;
        if zipped {
            text += "zip = [['a', 'b']]\n";
        }
        let sum = (0..lengths.len()).map(|axis| name(axis).to_string()).collect::<Vec<_>>().join(" + ");
        writeln!(text, "where = ['{sum} <= {limit}']").unwrap();
        let lengths: Vec<usize> =
            lengths.iter().enumerate().map(|(axis, &length)| if zipped && axis == 1 { lengths[0] } else { length }).collect();
        for (axis, length) in lengths.iter().enumerate() {
            let values: Vec<usize> = (0..*length).collect();
            writeln!(text, "axes.{} = {{ set = 'x{axis}', values = {values:?} }}", name(axis)).unwrap();
        }
        // The combinations, counted by hand, the last axis fastest.
        let total: usize = lengths.iter().product();
        let combination = |mut number: usize| {
            let mut digits: Vec<usize> = lengths.iter().rev().map(|length| { let digit = number % length; number /= length; digit }).collect();
            digits.reverse();
            digits
        };
        let expected: Vec<Vec<usize>> = (0..total)
            .map(combination)
            .filter(|digits| (!zipped || digits[0] == digits[1]) && digits.iter().sum::<usize>() <= limit)
            .collect();
        match try_sweep(&text) {
            Ok(sweep) => {
                prop_assert_eq!(sweep.cell_count() as usize, expected.len());
                for (cell, digits) in expected.iter().enumerate() {
                    let mut tree = json!({});
                    sweep.apply(cell as u64, &mut tree).unwrap();
                    let found: Vec<usize> = (0..digits.len()).map(|axis| tree[format!("x{axis}")].as_u64().unwrap() as usize).collect();
                    prop_assert_eq!(&found, digits);
                    let key: Vec<f64> = sweep.key(cell as u64).iter().map(|(_, value)| match value { AxisValue::Number(number) => *number, _ => f64::NAN }).collect();
                    prop_assert_eq!(key, digits.iter().map(|&digit| digit as f64).collect::<Vec<_>>());
                }
            }
            Err(error) => {
                prop_assert!(expected.is_empty(), "{}", error);
            }
        }
    }
}

#[test]
fn an_axis_that_sets_nothing_is_refused() {
    let error = try_sweep("axes.a = { set = [], values = [1, 2] }").unwrap_err();
    assert_eq!(error, "sweep.axes.a: `set` is empty; name the setting that takes the values");
}

#[test]
fn what_an_axis_of_a_design_is_does_not_depend_on_its_points() {
    let open = "
        design = { kind = 'sobol', points = 1 }
        where = [\"a != 'off'\"]
        axes.a = { set = 'x', values = ['1 s', 'off'] }
    ";
    let found = sweep(open).with_points(MAIN, &[vec![0.1]]).unwrap();
    assert_eq!(keys(&found), ["a1 s"]);
    assert_eq!(found.columns()[0].labels, ["1 s", "off"]);
}

#[test]
fn patterns_take_no_time() {
    let many = format!("{}b", "*a".repeat(50));
    assert!(!matches(&many, &"a".repeat(100)));
    assert!(matches(&many, &format!("{}b", "a".repeat(100))));
    for (pattern, name, fits) in [
        ("call.*", "call.mos", true),
        ("call.*", "calls.mos", false),
        ("*.mos", "call.mos", true),
        ("c*l*s", "call.mos", true),
        ("c*l*s*s", "call.mos", false),
        ("ab*ba", "aba", false),
        ("**", "", true),
        ("a*b*c", "abbc", true),
        ("a*bc*c", "abc", false),
    ] {
        assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
    }
}
