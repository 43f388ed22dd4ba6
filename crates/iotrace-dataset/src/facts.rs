//! Facts as a JSON object that keeps their order.
//!
//! Facts are shown in the order in which they were found, so they must come back in it; a map
//! type of a JSON library would sort them. Null means absent. A number that is not a whole
//! `i64` comes back as its text, so that nothing vanishes.

use std::fmt;

use iotrace_model::{Fact, Facts};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

/// Facts in a document: a JSON object of strings, numbers, booleans, arrays and objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FactsDocument(pub Facts);

impl From<&Facts> for FactsDocument {
    fn from(facts: &Facts) -> Self {
        Self(facts.clone())
    }
}

impl From<Facts> for FactsDocument {
    fn from(facts: Facts) -> Self {
        Self(facts)
    }
}

impl From<&FactsDocument> for Facts {
    fn from(document: &FactsDocument) -> Self {
        document.0.clone()
    }
}

impl Serialize for FactsDocument {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_facts(&self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for FactsDocument {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FactsVisitor).map(Self)
    }
}

fn serialize_facts<S: Serializer>(facts: &Facts, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(facts.0.iter().map(|(name, fact)| (name, Written(fact))))
}

/// A fact on its way out.
struct Written<'a>(&'a Fact);

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Fact::Text(text) => serializer.serialize_str(text),
            Fact::Number(number) => serializer.serialize_i64(*number),
            Fact::Flag(flag) => serializer.serialize_bool(*flag),
            Fact::List(list) => serializer.collect_seq(list.iter().map(Written)),
            Fact::Table(facts) => serialize_facts(facts, serializer),
        }
    }
}

/// A fact on its way in.
struct Read(Fact);

impl<'de> Deserialize<'de> for Read {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FactVisitor).map(Self)
    }
}

struct FactsVisitor;

impl<'de> Visitor<'de> for FactsVisitor {
    type Value = Facts;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of facts")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Facts, A::Error> {
        let mut facts = Facts::default();
        while let Some((name, fact)) = map.next_entry::<String, Option<Read>>()? {
            facts.set(&name, fact.map(|Read(fact)| fact));
        }
        Ok(facts)
    }
}

struct FactVisitor;

impl<'de> Visitor<'de> for FactVisitor {
    type Value = Fact;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a fact")
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Fact, E> {
        Ok(Fact::Flag(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Fact, E> {
        Ok(Fact::Number(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Fact, E> {
        Ok(i64::try_from(number).map_or_else(|_| Fact::Text(number.to_string()), Fact::Number))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Fact, E> {
        Ok(Fact::Text(number.to_string()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Fact, E> {
        Ok(Fact::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Fact, A::Error> {
        let mut facts = Vec::new();
        while let Some(fact) = list.next_element::<Option<Read>>()? {
            facts.extend(fact.map(|Read(fact)| fact));
        }
        Ok(Fact::List(facts))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Fact, A::Error> {
        FactsVisitor.visit_map(map).map(Fact::Table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_keep_their_order_and_their_kinds() {
        let mut inner = Facts::default();
        inner.set("z", Some(1));
        inner.set("a", Some("text"));
        let mut facts = Facts::default();
        facts.set("scheduler", Some("none"));
        facts.set("list", Some(Fact::List(vec![Fact::Number(-3), Fact::Flag(true)])));
        facts.set("inner", Some(inner));
        let text = r#"{"scheduler":"none","list":[-3,true],"inner":{"z":1,"a":"text"}}"#;
        assert_eq!(serde_json::to_string(&FactsDocument::from(&facts)).unwrap(), text);
        check(text, &facts.0);
    }

    #[test]
    fn what_is_no_fact_comes_back_as_text_or_not_at_all() {
        check(r#"{"a":null}"#, &[]);
        check(r#"{"a":[null,1]}"#, &[("a".to_owned(), Fact::List(vec![Fact::Number(1)]))]);
        check(r#"{"a":0.5}"#, &[("a".to_owned(), "0.5".into())]);
        check(r#"{"a":18446744073709551615}"#, &[("a".to_owned(), u64::MAX.to_string().into())]);
    }

    #[track_caller]
    fn check(text: &str, expected: &[(String, Fact)]) {
        let document: FactsDocument = serde_json::from_str(text).unwrap();
        assert_eq!(document.0.0, expected);
    }
}
