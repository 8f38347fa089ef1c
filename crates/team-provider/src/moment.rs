//! Moments: when a usage limit resets, when a record was written.
//!
//! Knows how the words of programs look. Must not read a clock: the caller says what time it is.

/// Seconds of a day.
const DAY: i64 = 86_400;

/// Returns the moment, in seconds of the epoch, that a limit text names, if it names one in UTC.
///
/// `now` is the moment the text was seen. A time without a date is the next one of
/// that time; a text in another time zone gives nothing, because zones are not
/// known here.
pub fn reset_time(text: &str, now: i64) -> Option<i64> {
    let rest = &text[text.find("resets ")? + "resets ".len()..];
    let end = rest.find('(')?;
    let zone = rest[end + 1..].split(')').next()?;
    if zone != "UTC" && zone != "GMT" && zone != "Etc/UTC" {
        return None;
    }
    let mut words: Vec<&str> = rest[..end].split([' ', ',']).filter(|word| !word.is_empty()).collect();
    words.retain(|word| *word != "at");
    let seconds = time_of_day(words.pop()?)?;
    match words.as_slice() {
        [] => {
            let today = now - now.rem_euclid(DAY) + seconds;
            Some(if today > now { today } else { today + DAY })
        }
        [month, day] => {
            let month = month_number(month)?;
            let day: i64 = day.parse().ok().filter(|day| (1..=31).contains(day))?;
            let year = year_of(now);
            let candidate = days_from_civil(year, month, day) * DAY + seconds;
            // A date that lies well behind us belongs to the next year.
            Some(if candidate < now - 30 * DAY {
                days_from_civil(year + 1, month, day) * DAY + seconds
            } else {
                candidate
            })
        }
        _ => None,
    }
}

/// Reads a moment such as `2026-01-31T23:59:59.123Z` as milliseconds of the epoch.
pub(crate) fn epoch_ms(text: &str) -> Option<i64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let numbers = |text: &str, mark: char| -> Option<[i64; 3]> {
        let parts: Vec<i64> = text.split(mark).map(str::parse).collect::<Result<_, _>>().ok()?;
        parts.try_into().ok()
    };
    let [year, month, day] = numbers(date, '-')?;
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let [hour, minute, second] = numbers(clock, ':')?;
    let sane = (0..10_000).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..=60).contains(&second);
    let millis: i64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    sane.then(|| {
        let seconds = days_from_civil(year, month, day) * DAY + hour * 3600 + minute * 60 + second;
        seconds * 1000 + millis
    })
}

/// Reads `3pm`, `12:25pm` or `15:04` as seconds of the day.
fn time_of_day(word: &str) -> Option<i64> {
    let lower = word.to_ascii_lowercase();
    let (number, half) = match (lower.strip_suffix("am"), lower.strip_suffix("pm")) {
        (Some(number), _) => (number, Some(0)),
        (_, Some(number)) => (number, Some(12)),
        _ => (lower.as_str(), None),
    };
    let (hour, minute) = number.split_once(':').unwrap_or((number, "0"));
    let hour: i64 = hour.parse().ok()?;
    let minute: i64 = minute.parse().ok().filter(|minute| (0..60).contains(minute))?;
    let hour = match half {
        Some(add) if (1..=12).contains(&hour) => hour % 12 + add,
        None if number.contains(':') && (0..24).contains(&hour) => hour,
        _ => return None,
    };
    Some(hour * 3600 + minute * 60)
}

/// Returns the number of a month's English short name.
fn month_number(word: &str) -> Option<i64> {
    let names = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let start = word.get(..3)?.to_ascii_lowercase();
    names.iter().position(|name| *name == start).and_then(|at| i64::try_from(at + 1).ok())
}

/// Returns the days from the epoch to a date of the Gregorian calendar.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year - era * 400;
    let day_of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Returns the year of a moment.
fn year_of(now: i64) -> i64 {
    let days = now.div_euclid(DAY);
    let mut year = 1970 + days / 366;
    while days_from_civil(year + 1, 1, 1) <= days {
        year += 1;
    }
    year
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-16T09:00:00Z.
    const NOW: i64 = 1_794_819_600;

    #[test]
    fn a_time_of_day_is_the_next_one() {
        let at = |text| reset_time(text, NOW).map(|it| it - NOW);
        assert_eq!(at("You've hit your limit · resets 12:25pm (UTC)"), Some(3 * 3600 + 25 * 60));
        assert_eq!(at("You've hit your limit · resets 9am (UTC)"), Some(DAY));
        assert_eq!(at("resets 12am (UTC)"), Some(15 * 3600));
        assert_eq!(at("resets at 15:04 (UTC)"), Some(6 * 3600 + 4 * 60));
    }

    #[test]
    fn a_date_is_taken_as_it_stands() {
        assert_eq!(reset_time("resets Nov 20, 3pm (UTC)", NOW), Some(NOW + 4 * DAY + 6 * 3600));
        assert_eq!(reset_time("resets Jan 2 at 9am (UTC)", NOW), Some(NOW + 47 * DAY));
    }

    #[test]
    fn a_written_moment_is_read_to_the_millisecond() {
        assert_eq!(epoch_ms("2026-11-16T09:00:00.250Z"), Some(NOW * 1000 + 250));
        assert_eq!(epoch_ms("2026-11-16T09:00:00Z"), Some(NOW * 1000));
        assert_eq!(epoch_ms("1970-01-01T00:00:00.000Z"), Some(0));
        for text in
            ["", "Z", "2026-11-16", "2026-11-16T09:00:00+01:00", "2026-13-01T00:00:00Z", "2026-1-1T1:1Z"]
        {
            assert_eq!(epoch_ms(text), None, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_known_is_not_guessed() {
        for text in [
            "",
            "resets",
            "resets 3pm",
            "resets 3pm (Europe/Berlin)",
            "resets 13pm (UTC)",
            "resets 3:99pm (UTC)",
            "resets Foo 3, 3pm (UTC)",
            "API Error: Request rejected (429)",
            "resets soon (UTC)",
        ] {
            assert_eq!(reset_time(text, NOW), None, "{text}");
        }
    }
}
