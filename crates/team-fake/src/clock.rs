//! Time stamps: wall clock for records, a monotonic count for the byte log. Knows no log.

use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Returns the wall clock in milliseconds since 1970.
pub(crate) fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the milliseconds since the first call in this process.
pub(crate) fn mono_ms() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Returns the wall clock as `2026-01-01T00:00:00.000Z`.
pub(crate) fn now_iso() -> String {
    iso(wall_ms())
}

/// Formats milliseconds since 1970 as `2026-01-01T00:00:00.000Z`.
pub(crate) fn iso(ms: u64) -> String {
    let seconds = ms / 1000;
    let (year, month, day) = civil(seconds / 86_400);
    let of_day = seconds % 86_400;
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
        of_day / 3600,
        of_day / 60 % 60,
        of_day % 60,
        ms % 1000
    )
}

/// Formats a time of day the way limit messages do: `12:25pm (UTC)`.
pub(crate) fn hour_text(ms: u64) -> String {
    let minutes = ms / 60_000 % 1440;
    let (hour, minute) = (minutes / 60, minutes % 60);
    let half = if hour < 12 { "am" } else { "pm" };
    let twelve = if hour % 12 == 0 { 12 } else { hour % 12 };
    format!("{twelve}:{minute:02}{half} (UTC)")
}

/// Turns a count of days since 1970 into a date of the Gregorian calendar.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_stamps_match_the_calendar() {
        assert_eq!(iso(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(iso(951_782_399_999), "2000-02-28T23:59:59.999Z");
        assert_eq!(iso(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(iso(1_767_225_600_123), "2026-01-01T00:00:00.123Z");
    }

    #[test]
    fn hours_are_told_in_halves_of_the_day() {
        assert_eq!(hour_text(0), "12:00am (UTC)");
        assert_eq!(hour_text(12 * 3_600_000 + 25 * 60_000), "12:25pm (UTC)");
        assert_eq!(hour_text(23 * 3_600_000), "11:00pm (UTC)");
    }
}
