//! Every parameter of every tool, with everything that a caller can get wrong; generated from the table.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::bench::{self, Bench, right_arguments};
use crate::tools::ToolName;
use crate::tools::arguments;
use crate::tools::spec::{Param, ParamKind, ToolSpec};

/// Values of every JSON type, small and extreme.
fn junk() -> Vec<Value> {
    let deep = (0..60).fold(json!(1), |inner, _| json!([inner]));
    vec![
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(1),
        json!(1.0),
        json!(1.5),
        json!(1e300),
        json!(-1e300),
        json!(i64::MIN),
        json!(i64::MAX),
        json!(u64::MAX),
        json!(9007199254740993_i64),
        json!(""),
        json!(" "),
        json!("\u{0}"),
        json!("null"),
        json!("5"),
        json!("A_LINE1_042"),
        json!(" a-line1 042 "),
        json!("A_LINE1_042\n"),
        json!("A_LINE1_04"),
        json!("press-plc"),
        json!("$SYS/broker"),
        json!("../../etc/passwd"),
        json!("température"),
        json!("温度センサー"),
        json!("درجة الحرارة"),
        json!("🌡️"),
        json!("x".repeat(48)),
        json!("x".repeat(49)),
        json!("é".repeat(100)),
        json!("é".repeat(101)),
        json!("x".repeat(100_000)),
        json!([]),
        json!({}),
        json!([null]),
        json!(["A_LINE1_042"]),
        json!(["A_LINE1_042", "A_LINE1_042"]),
        json!([["A_LINE1_042"]]),
        json!(vec!["A_LINE1_042"; 51]),
        json!({"id": "A_LINE1_042"}),
        deep,
    ]
}

fn validator(spec: &ToolSpec) -> jsonschema::Validator {
    jsonschema::validator_for(&Value::Object(spec.input_schema())).expect("a schema")
}

/// The tool's right arguments with one parameter as given; of parameters that exclude each other, that one.
fn with(tool: ToolName, param: &Param, value: &Value) -> Value {
    let mut arguments = right_arguments(tool);
    if tool == ToolName::GetSensorReadings && param.name == "device" {
        arguments = json!({});
    }
    arguments[param.name] = value.clone();
    arguments
}

#[tokio::test(start_paused = true)]
async fn no_value_of_any_parameter_is_answered_but_by_a_result_or_a_typed_refusal() {
    // covers: A5, A6, A8
    let bench = Bench::new();
    bench.answered("A_LINE1_042", &bench::WARM);
    bench.answered("B_HALL2_001", &[1]);
    for tool in ToolName::ALL {
        let validator = validator(tool.spec());
        for param in tool.spec().params {
            for value in junk() {
                let given = with(tool, param, &value);
                let valid = validator.is_valid(&given);
                let shown = arguments::cut(&given.to_string());
                let answer = bench.call(tool, given).await;
                if let Err(error) = &answer {
                    assert!(error.to_string().len() < 64 * 1024, "{shown}");
                }
                let refused = matches!(&answer, Err(error) if error["error"] == "INVALID_ARGUMENT");
                assert!(valid || refused, "{} ran what its schema refuses: {shown}", tool.as_str());
                let Err(error) = answer else { continue };
                for fault in error["faults"].as_array().into_iter().flatten() {
                    let parameter = fault["parameter"].as_str().expect("a text");
                    assert!(parameter.starts_with(param.name), "{parameter} is blamed for {shown}");
                    let hint = fault["hint"].as_str().expect("a text");
                    assert!(!hint.is_empty() && fault["received"].to_string().len() < 1000, "{shown}");
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_a_null_and_an_unknown_parameter_are_refused_each_by_name() {
    let bench = Bench::new();
    for tool in ToolName::ALL {
        for param in tool.spec().params {
            let mut without = right_arguments(tool);
            without.as_object_mut().expect("an object").remove(param.name);
            let refused = bench.call(tool, without).await.is_err_and(|error| error["error"] == "INVALID_ARGUMENT");
            let needed = param.required || param.name == "sensor_ids";
            assert_eq!(refused, needed, "{} without {}", tool.as_str(), param.name);
            let faults = bench.faults(tool, with(tool, param, &Value::Null)).await;
            assert!(faults[0].starts_with(&format!("{} is null", param.name)), "{faults:?}");
        }
        let mut unknown = right_arguments(tool);
        unknown["bogus"] = json!(1);
        assert_eq!(bench.faults(tool, unknown).await, ["bogus is not a parameter of this tool"]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_ends_of_every_range_pass_and_one_more_does_not() {
    let bench = Bench::new();
    for tool in ToolName::ALL {
        for param in tool.spec().params {
            let ParamKind::Integer { min, max } = param.kind else { continue };
            for (number, right) in [(min, true), (max, true), (min - 1, false), (max + 1, false)] {
                let answer = bench.call(tool, with(tool, param, &json!(number))).await;
                let refused = matches!(answer, Err(error) if error["error"] == "INVALID_ARGUMENT");
                assert_eq!(refused, !right, "{} {} {number}", tool.as_str(), param.name);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn megabytes_of_junk_are_refused_in_a_small_answer() {
    let bench = Bench::new();
    let large: Map<String, Value> = (0..50_000).map(|number| (format!("field_{number}"), json!(number))).collect();
    for given in [Value::Object(large), json!("x".repeat(1 << 20)), json!(vec![0; 100_000])] {
        let error = bench.call(ToolName::ListSensors, given).await.expect_err("refused");
        assert_eq!(error["error"], "INVALID_ARGUMENT");
        assert!(error.to_string().len() < 64 * 1024, "{}", error.to_string().len());
    }
}

#[test]
fn every_example_and_default_meets_the_schema_of_its_parameter() {
    // covers: A2
    for tool in ToolName::ALL {
        let spec = tool.spec();
        for param in spec.params {
            let validator = jsonschema::validator_for(&Value::Object(param.kind.schema())).expect("a schema");
            assert!(validator.is_valid(&param.example.to_json()), "{} {}", tool.as_str(), param.name);
            assert!(param.default.is_none_or(|default| validator.is_valid(&default.to_json())), "{}", param.name);
            assert_eq!(
                param.required,
                param.left_out.is_empty(),
                "{}: an optional one says what leaving it out means",
                param.name
            );
            assert!(!param.description.is_empty());
        }
    }
}

/// JSON of any kind, and often nearly right.
fn any_value() -> impl Strategy<Value = Value> {
    let plain = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-5_i64..130).prop_map(Value::from),
        (-5_i64..130).prop_map(|number| Value::from(number as f64)),
        any::<f64>().prop_map(Value::from),
        ".{0,60}".prop_map(Value::from),
        "[A-Za-z0-9_.-]{0,60}".prop_map(Value::from),
        prop::sample::select(junk()),
        prop::sample::select(vec!["normalized", "raw", "online", "offline", "A_LINE1_042"]).prop_map(Value::from),
    ];
    plain.prop_recursive(3, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec("[A-Za-z0-9_.-]{0,49}".prop_map(Value::from), 0..55).prop_map(Value::from),
            prop::collection::btree_map("[a-z_]{0,8}", inner, 0..4).prop_map(|members| members.into_iter().collect()),
        ]
    })
}

fn any_arguments() -> impl Strategy<Value = Map<String, Value>> {
    let known = ToolName::ALL.iter().flat_map(|tool| tool.spec().params).map(|param| param.name.to_owned());
    let mut names: Vec<String> = known.collect();
    names.extend(["sensorId", "Limit", "sensor-id", "", "id"].map(str::to_owned));
    prop::collection::btree_map(prop::sample::select(names), any_value(), 0..4)
        .prop_map(|members| members.into_iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    /// The published schema and the check of a call accept the same arguments, for every tool.
    #[test]
    fn the_schema_and_the_check_agree(given in any_arguments()) {
        // covers: A5
        // Compiled once: that takes longer than a thousand checks.
        static VALIDATORS: LazyLock<[jsonschema::Validator; 6]> =
            LazyLock::new(|| ToolName::ALL.map(|tool| validator(tool.spec())));
        let registry = bench::registry();
        for (tool, validator) in ToolName::ALL.into_iter().zip(VALIDATORS.iter()) {
            let by_schema = validator.is_valid(&Value::Object(given.clone()));
            let by_check = arguments::meets_schema(tool.spec(), &given, &registry);
            prop_assert_eq!(by_schema, by_check, "{} {:?}", tool.as_str(), given);
        }
    }

    /// Whatever comes as arguments, the check ends, and a refusal has a fault for it.
    #[test]
    fn no_arguments_break_the_check(given in any_value()) {
        let registry = bench::registry();
        for tool in ToolName::ALL {
            if let Err(error) = arguments::check(tool.spec(), given.clone(), &registry) {
                prop_assert!(error.details["faults"].as_array().is_some_and(|faults| !faults.is_empty()));
            }
        }
    }
}

#[test]
fn the_schema_and_the_check_agree_on_every_boundary() {
    let registry = bench::registry();
    for tool in ToolName::ALL {
        let validator = validator(tool.spec());
        for param in tool.spec().params {
            for value in junk() {
                let given = with(tool, param, &value);
                let by_check = arguments::meets_schema(tool.spec(), given.as_object().expect("an object"), &registry);
                let shown = arguments::cut(&given.to_string());
                assert_eq!(validator.is_valid(&given), by_check, "{} {shown}", tool.as_str());
            }
        }
    }
}
