//! Time as lines hold it: UTC with milliseconds. Knows no clock.

use std::fmt;

use chrono::{DateTime, Datelike as _, NaiveDate, SubsecRound as _, Timelike as _, Utc};
use serde::de::Visitor;
use serde::{Deserializer, Serializer};

/// Cuts a time to what a line can hold.
pub(crate) fn trim(time: DateTime<Utc>) -> DateTime<Utc> {
    time.trunc_subsecs(3)
}

pub(crate) fn push(time: DateTime<Utc>, out: &mut Vec<u8>) {
    let year = time.year();
    if !(0..=9999).contains(&year) {
        out.extend_from_slice(time.to_rfc3339_opts(chrono::SecondsFormat::Millis, true).as_bytes());
        return;
    }
    digits(out, year.unsigned_abs(), 4);
    out.push(b'-');
    digits(out, time.month(), 2);
    out.push(b'-');
    digits(out, time.day(), 2);
    out.push(b'T');
    digits(out, time.hour(), 2);
    out.push(b':');
    digits(out, time.minute(), 2);
    out.push(b':');
    digits(out, time.second(), 2);
    out.push(b'.');
    digits(out, (time.nanosecond() / 1_000_000).min(999), 3);
    out.push(b'Z');
}

fn digits(out: &mut Vec<u8>, mut value: u32, width: usize) {
    let start = out.len();
    out.resize(start + width, b'0');
    for place in out[start..].iter_mut().rev() {
        *place = b'0' + u8::try_from(value % 10).unwrap_or(0);
        value /= 10;
    }
}

/// Reads the exact form that [`push`] writes; anything else is left to the general parser.
fn quick(text: &[u8]) -> Option<DateTime<Utc>> {
    let text: &[u8; 24] = text.try_into().ok()?;
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'.'), (23, b'Z')];
    if marks.iter().any(|(at, mark)| text[*at] != *mark) {
        return None;
    }
    let number = |from: usize, to: usize| {
        text[from..to]
            .iter()
            .try_fold(0u32, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + u32::from(digit - b'0')))
    };
    let year = i32::try_from(number(0, 4)?).ok()?;
    let date = NaiveDate::from_ymd_opt(year, number(5, 7)?, number(8, 10)?)?;
    let time = date.and_hms_milli_opt(number(11, 13)?, number(14, 16)?, number(17, 19)?, number(20, 23)?)?;
    Some(time.and_utc())
}

/// For `#[serde(with)]`.
pub(crate) fn serialize<S: Serializer>(time: &DateTime<Utc>, serializer: S) -> Result<S::Ok, S::Error> {
    let mut text = Vec::with_capacity(24);
    push(*time, &mut text);
    serializer.serialize_str(std::str::from_utf8(&text).unwrap_or_default())
}

/// For `#[serde(with)]`.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DateTime<Utc>, D::Error> {
    struct Stamp;
    impl Visitor<'_> for Stamp {
        type Value = DateTime<Utc>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a time like 2026-01-01T00:00:00.000Z")
        }
        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<DateTime<Utc>, E> {
            match quick(text.as_bytes()) {
                Some(time) => Ok(time),
                None => text.parse().map_err(E::custom),
            }
        }
    }
    deserializer.deserialize_str(Stamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) {
        let quick = quick(text.as_bytes()).unwrap();
        assert_eq!(quick, text.parse::<DateTime<Utc>>().unwrap());
        let mut out = Vec::new();
        push(quick, &mut out);
        assert_eq!(std::str::from_utf8(&out).unwrap(), text);
    }

    #[test]
    fn the_quick_form_agrees_with_the_general_one() {
        check("2026-01-01T00:00:00.000Z");
        check("1999-12-31T23:59:59.999Z");
        check("2024-02-29T12:34:56.789Z");
    }

    #[test]
    fn other_forms_are_not_misread() {
        for text in ["2026-01-01T00:00:00Z", "2026-13-01T00:00:00.000Z", "2026-01-01 00:00:00.000Z", ""] {
            assert_eq!(quick(text.as_bytes()), None, "{text}");
        }
    }
}
