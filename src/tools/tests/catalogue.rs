//! What is published of the tools. The golden files are contracts: clients have read them.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::tools::dialect::{Dialect, catalog_digest, catalog_json};
use crate::tools::spec::Toolset;
use crate::tools::{ToolName, list};

fn in_project(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn golden(name: &str, actual: &Value) {
    let path = in_project("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some_and(|value| value == "1") {
        std::fs::write(&path, format!("{actual:#}\n")).expect("a golden file");
    }
    let text = std::fs::read_to_string(&path).expect("a golden file");
    let expected: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(*actual, expected, "{name} is what clients know; UPDATE_GOLDEN=1 writes it anew if that was meant");
}

#[test]
fn the_catalogue_is_what_clients_know_in_every_dialect() {
    // covers: B1
    for dialect in Dialect::ALL {
        golden(&format!("tools.{}.json", dialect.as_str()), &dialect.tools(None).expect("all tools"));
    }
    golden("tools.catalog.json", &catalog_json());
}

#[test]
fn every_dialect_carries_the_same_parameters() {
    for tool in ToolName::ALL {
        let spec = tool.spec();
        let mcp = Dialect::Mcp.tool(spec);
        assert_eq!(mcp["inputSchema"], Dialect::OpenAi.tool(spec)["function"]["parameters"]);
        assert_eq!(mcp["inputSchema"], Dialect::Anthropic.tool(spec)["input_schema"]);
        assert_eq!(mcp["inputSchema"]["additionalProperties"], false);
        assert_eq!(mcp["outputSchema"]["type"], "object", "older peers want an object at the root");
        for schema in [&mcp["inputSchema"], &mcp["outputSchema"]] {
            assert!(jsonschema::meta::is_valid(schema), "{} has a schema that is none", tool.as_str());
        }
    }
}

#[test]
fn every_parameter_has_a_type_a_description_and_an_example() {
    // covers: A2
    for tool in ToolName::ALL {
        let schema = Value::Object(tool.spec().input_schema());
        for (name, property) in schema["properties"].as_object().expect("properties") {
            for member in ["type", "description", "examples"] {
                assert!(!property[member].is_null(), "{} {name} has no {member}", tool.as_str());
            }
        }
    }
}

#[test]
fn a_name_is_a_verb_and_an_object_and_a_description_says_what_serves_instead() {
    // covers: A1, A4, A15
    for tool in ToolName::ALL {
        let name = tool.as_str();
        let verb = name.split('_').next().expect("a verb");
        assert!(["list", "describe", "get"].contains(&verb), "{name}");
        let description = tool.spec().description;
        assert!(description.contains("Use it"), "{name} says when");
        let others = ToolName::ALL.iter().filter(|other| **other != tool);
        assert!(others.into_iter().any(|other| description.contains(other.as_str())), "{name} names another");
        assert!(
            description.len() < 1024,
            "{name}: some APIs take no more than 1,024 characters: {}",
            description.len()
        );
        assert_eq!(tool.spec().annotations()["readOnlyHint"], true);
        assert_eq!(ToolName::from_name(name), Some(tool));
    }
    for tool in [ToolName::GetSensorReading, ToolName::GetSensorReadings] {
        assert!(tool.spec().description.contains("no past values"));
    }
}

#[test]
fn a_toolset_can_be_asked_for_and_a_wrong_one_is_told_the_right_ones() {
    // covers: A16
    let names = |toolset: Option<&str>| -> Vec<&str> {
        list(toolset).expect("a toolset").into_iter().map(|spec| spec.name.as_str()).collect()
    };
    assert_eq!(names(None).len(), 6);
    assert_eq!(names(Some("devices")), ["list_devices"]);
    let together: usize = Toolset::ALL.iter().map(|toolset| names(Some(toolset.as_str())).len()).sum();
    assert_eq!(together, 6, "every tool is in one toolset");
    let error = list(Some("sensor")).expect_err("no such toolset");
    assert_eq!(error.suggestions, ["sensors"]);
    assert_eq!(error.to_string(), "there is no toolset \"sensor\"; there are sensors, devices, operations");
}

#[test]
fn an_unknown_tool_is_told_the_nearest_ones() {
    assert_eq!(ToolName::from_name("get_sensor_value"), None);
    assert_eq!(ToolName::nearest("get_sensor_readin").first(), Some(&"get_sensor_reading"));
}

#[test]
fn the_catalogue_on_the_broker_is_short_and_its_digest_follows_every_word() {
    let catalog = catalog_json();
    assert_eq!(catalog["digest"], json!(catalog_digest()));
    assert!(catalog.to_string().len() < 4096, "{}", catalog.to_string().len());
    for tool in catalog["tools"].as_array().expect("tools") {
        assert!(tool["description"].as_str().is_some_and(|line| !line.contains('\n') && line.len() < 160), "{tool}");
    }
}
