//! Tests that the output matches `docs/load-schema.json`: a validator for the part of JSON Schema (2020-12) which
//! that file uses.

use serde_json::Value;

use super::samples;

const SCHEMA: &str = include_str!("../../../../docs/load-schema.json");

fn schema() -> Value {
    serde_json::from_str(SCHEMA).unwrap()
}

/// The problems of `value`, each with its place.
fn problems(root: &Value, schema: &Value, value: &Value, place: &str, found: &mut Vec<String>) {
    let schema = match schema.get("$ref").and_then(Value::as_str) {
        Some(name) => {
            root.pointer(name.trim_start_matches('#')).unwrap_or_else(|| panic!("{name} is not defined"))
        }
        None => schema,
    };
    for word in schema.as_object().unwrap().keys() {
        const KNOWN: [&str; 14] = [
            "$schema",
            "$id",
            "$defs",
            "title",
            "description",
            "type",
            "properties",
            "required",
            "additionalProperties",
            "items",
            "enum",
            "const",
            "minimum",
            "maximum",
        ];
        assert!(KNOWN.contains(&word.as_str()), "the validator does not know {word}");
    }
    let types = match schema.get("type") {
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
        Some(Value::String(one)) => vec![one.as_str()],
        _ => Vec::new(),
    };
    if !types.is_empty() && !types.iter().any(|name| is_of(value, name)) {
        return found.push(format!("{place}: {value} is not {types:?}"));
    }
    if schema.get("const").is_some_and(|only| only != value) {
        found.push(format!("{place}: {value} is not {}", schema["const"]));
    }
    if schema.get("enum").and_then(Value::as_array).is_some_and(|all| !all.contains(value)) {
        found.push(format!("{place}: {value} is none of {}", schema["enum"]));
    }
    let bound = |name| schema.get(name).and_then(Value::as_f64);
    if let Some(number) = value.as_f64()
        && (bound("minimum").is_some_and(|least| number < least)
            || bound("maximum").is_some_and(|most| number > most))
    {
        found.push(format!("{place}: {number} is out of bounds"));
    }
    if let (Some(items), Some(values)) = (schema.get("items"), value.as_array()) {
        for (index, value) in values.iter().enumerate() {
            problems(root, items, value, &format!("{place}[{index}]"), found);
        }
    }
    if let Some(members) = value.as_object() {
        for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
            if !members.contains_key(name.as_str().unwrap()) {
                found.push(format!("{place}: {name} is missing"));
            }
        }
        for (name, value) in members {
            let own = schema.get("properties").and_then(|all| all.get(name));
            match own.or(schema.get("additionalProperties")) {
                Some(Value::Bool(false)) => found.push(format!("{place}: {name} is not in the schema")),
                Some(schema) if schema.is_object() => {
                    problems(root, schema, value, &format!("{place}.{name}"), found)
                }
                _ => {}
            }
        }
    }
}

fn is_of(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => panic!("no type is named {name}"),
    }
}

fn problems_of(document: &Value) -> Vec<String> {
    let (schema, mut found) = (schema(), Vec::new());
    problems(&schema, &schema, document, "", &mut found);
    found
}

#[test]
fn what_is_written_is_in_the_schema() {
    for mut document in [samples::ramp(1000), samples::breaking(1000, 0.6)] {
        document.stages[0].method = samples::method();
        let mut written: Value = serde_json::from_str(&document.json()).unwrap();
        assert_eq!(problems_of(&written), [""; 0]);
        written["bottleneck"] = Value::from("php-fpm");
        written["bisection"] = serde_json::json!([{ "load": 1.5, "held": true, "why": "" }]);
        assert_eq!(problems_of(&written), [""; 0]);
    }
}

#[test]
fn what_is_not_in_the_schema_is_found() {
    let mut written: Value = serde_json::from_str(&samples::ramp(1000).json()).unwrap();
    written["more"] = Value::Null;
    written["total"].as_object_mut().unwrap().remove("ok");
    written["seconds"][3]["users"] = Value::from(-1);
    written["outcome"]["end"] = Value::from("well");
    let found = problems_of(&written);
    for part in [
        "more is not in the schema",
        ".total: \"ok\" is missing",
        ".seconds[3].users: -1 is out of bounds",
        "\"well\" is none of",
    ] {
        assert!(found.iter().any(|line| line.contains(part)), "{part}: {found:?}");
    }
}

/// Every object in the schema forbids unnamed members: a new member must be described.
#[test]
fn the_schema_is_strict() {
    fn check(value: &Value, place: &str) {
        if value.get("properties").is_some() {
            assert_eq!(value.get("additionalProperties"), Some(&Value::Bool(false)), "{place}");
            for (name, member) in value["properties"].as_object().unwrap() {
                let told = member.get("description").is_some() || member.get("$ref").is_some();
                assert!(told, "{place}.{name} is not described");
            }
        }
        for (name, inner) in value.as_object().into_iter().flatten() {
            check(inner, &format!("{place}.{name}"));
        }
    }
    check(&schema(), "");
}
