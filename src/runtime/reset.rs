//! When a limit ends, as a message says it.

use std::sync::LazyLock;

use jiff::civil::{Date, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan, ZonedDateTime};
use regex::{Captures, Regex};

/// A time further ahead is no end of a limit: 60 days.
const AHEAD_MAX: SignedDuration = SignedDuration::from_hours(60 * 24);

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [(&str, Weekday); 7] = [
    ("mon", Weekday::Monday),
    ("tue", Weekday::Tuesday),
    ("wed", Weekday::Wednesday),
    ("thu", Weekday::Thursday),
    ("fri", Weekday::Friday),
    ("sat", Weekday::Saturday),
    ("sun", Weekday::Sunday),
];

pub(super) fn regex(pattern: &str) -> Regex {
    #[expect(clippy::unwrap_used, reason = "a constant; the tests make each")]
    Regex::new(pattern).unwrap()
}

/// `limit reached|1735689600`, `"resets_at":1735689600`, in seconds or milliseconds.
static EPOCH: LazyLock<Regex> =
    LazyLock::new(|| regex(r#"(?i)(?:\||resets?_?at"?\s*[:=])\s*"?(\d{10}(?:\d{3})?)\b"#));
/// `resets at 2026-12-05T09:00:00Z`.
static INSTANT: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?ix) (?:reset|again|until|after|available) [^\n\d]{0,20}
        (\d{4}-\d\d-\d\d [T\ ] \d\d:\d\d (?: :\d\d (?:\.\d+)? )? (?: Z | [+-]\d\d:?\d\d ))",
    )
});
/// `Retry-After: 30`, `retry_after_ms=1200`, `"resets_in_seconds":30`.
static HEADER: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r#"(?ix) (?:retry[-_\ ]after|resets?_in) ([-_\ ]?(?:ms|seconds|s))? "? \s* [:=] \s* "?
        (\d+ (?:\.\d+)?) \s* (ms\b)?"#,
    )
});
/// `try again in 3 days 4 hours 12 minutes`, `resets in 2h 13m`, `reset after 18h3m2s`, `wait 30 seconds`.
static SPAN: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?ix) \b
        (?: (?:again|resets?|retry(?:ing)?|available|wait) \b [^\n\d]{0,30}? \b (?:in|after|for) | wait )
        \s+ (?:about\s+)?
        ( (?: \d+ (?:\.\d+)? \s*
            (?:months?|weeks?|days?|hours?|hrs?|minutes?|mins?|seconds?|secs?|milliseconds?|ms|w|d|h|m|s)
            ,? \s* (?:and\s+)? )+ )",
    )
});
static ONE_AMOUNT: LazyLock<Regex> = LazyLock::new(|| regex(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]+)"));
/// What a day or a time of day follows.
static LEAD: LazyLock<Regex> =
    LazyLock::new(|| regex(r"(?i)\b(?:resets?|again|until|available)\b(?:\s+again)?[\s:]*(?:(?:on|at)\s+)?"));
static DAY: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?ix) ^ (?:
        (?P<y>\d{4})-(?P<m>\d\d)-(?P<d>\d\d)
        | (?P<month>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]* \.? \s+
          (?P<day>\d{1,2}) (?:st|nd|rd|th)? \b (?: ,? \s+ (?P<year>\d{4}) \b )?
        | (?P<weekday>mon|tue|wed|thu|fri|sat|sun)[a-z]* \b
        | (?P<near>today|tomorrow) \b )",
    )
});
static CLOCK: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?ix) ^ ,? \s* (?:at\s+)?
        (?P<hour>\d{1,2}) (?: :(?P<minute>\d\d) )? (?: :\d\d )? (?: \s* (?P<half>[ap]) \.? m \b \.? | \b )",
    )
});
static ZONE: LazyLock<Regex> = LazyLock::new(|| regex(r"^\s*(?:\(([A-Za-z0-9_+/-]+)\)|(UTC|GMT)\b)"));

/// Returns the moment at which `text` says that a limit ends; `None` where it says none, or one that can't
/// be: more than 60 days ahead, or a date that is past. A time of day is the next one after `now`, in the
/// zone that follows it in parentheses, else in that of `now`.
pub(super) fn reset_of(text: &str, now: &ZonedDateTime) -> Option<Timestamp> {
    let found = said(text, now)?;
    let ahead = found.duration_since(now.timestamp());
    (ahead >= SignedDuration::ZERO && ahead <= AHEAD_MAX).then_some(found)
}

fn said(text: &str, now: &ZonedDateTime) -> Option<Timestamp> {
    if let Some(found) = EPOCH.captures(text) {
        let number: i64 = found[1].parse().ok()?;
        let millis = if found[1].len() == 13 { number } else { number.checked_mul(1000)? };
        return Timestamp::from_millisecond(millis).ok();
    }
    if let Some(found) = INSTANT.captures(text) {
        return found[1].parse().ok();
    }
    if let Some(found) = HEADER.captures(text) {
        let is_millis =
            found.get(1).is_some_and(|unit| unit.as_str().ends_with("ms")) || found.get(3).is_some();
        return after(now, found[2].parse::<f64>().ok()? / if is_millis { 1000.0 } else { 1.0 });
    }
    if let Some(found) = SPAN.captures(text) {
        return after(now, ONE_AMOUNT.captures_iter(&found[1]).map(|amount| seconds(&amount)).sum());
    }
    LEAD.find_iter(text).find_map(|lead| on_the_clock(&text[lead.end()..], now))
}

fn after(now: &ZonedDateTime, seconds: f64) -> Option<Timestamp> {
    let ahead = SignedDuration::try_from_secs_f64(seconds).ok()?;
    now.timestamp().checked_add(ahead).ok()
}

fn seconds(amount: &Captures<'_>) -> f64 {
    let number: f64 = amount[1].parse().unwrap_or(f64::INFINITY);
    let unit = amount[2].to_ascii_lowercase();
    let each = match unit.as_str() {
        "ms" => 0.001,
        word if word.starts_with("milli") => 0.001,
        word if word.starts_with("month") => 30.0 * 86_400.0,
        word if word.starts_with('w') => 7.0 * 86_400.0,
        word if word.starts_with('d') => 86_400.0,
        word if word.starts_with('h') => 3600.0,
        word if word.starts_with('m') => 60.0,
        _ => 1.0,
    };
    number * each
}

/// Returns the moment that `text` begins with: a day, a time of day, or both, and a zone.
fn on_the_clock(text: &str, now: &ZonedDateTime) -> Option<Timestamp> {
    let day = DAY.captures(text);
    let mut rest = &text[day.as_ref().map_or(0, |day| day[0].len())..];
    let clock = CLOCK.captures(rest).and_then(|clock| Some((time(&clock, day.is_some())?, clock[0].len())));
    rest = &rest[clock.map_or(0, |(_, length)| length)..];
    let zone = ZONE.captures(rest).and_then(|zone| {
        let name = zone.get(1).or(zone.get(2))?.as_str();
        // A name that this system does not know is the machine's own zone all the same.
        TimeZone::get(name).ok()
    });
    let zone = zone.unwrap_or_else(|| now.time_zone().clone());
    let today = now.with_time_zone(zone.clone()).date();
    let time = clock.map(|(time, _)| time);
    let first = |days: &mut dyn Iterator<Item = Date>| {
        let moments = days.flat_map(|date| moments(date, time.unwrap_or(Time::midnight()), &zone));
        moments.into_iter().find(|moment| *moment > now.timestamp())
    };
    let Some(day) = day else {
        time?;
        return first(&mut (0..3).filter_map(|ahead| today.checked_add(ahead.days()).ok()));
    };
    let number = |name: &str| day.name(name).and_then(|number| number.as_str().parse::<i16>().ok());
    let word = |name: &str| day.name(name).map(|word| word.as_str().to_ascii_lowercase());
    if let Some(weekday) = word("weekday") {
        let (_, weekday) = WEEKDAYS.into_iter().find(|(name, _)| *name == weekday)?;
        let days = (0..9).filter_map(|ahead| today.checked_add(ahead.days()).ok());
        return first(&mut days.filter(|date| date.weekday() == weekday));
    }
    if let Some(near) = word("near") {
        let date = today.checked_add(i32::from(near == "tomorrow").days()).ok()?;
        return first(&mut [date].into_iter());
    }
    let (month, day) = match word("month") {
        Some(month) => (MONTHS.iter().position(|name| *name == month)? as i8 + 1, number("day")?),
        None => (number("m")? as i8, number("d")?),
    };
    let date = |year: i16| Date::new(year, month, day as i8).ok();
    match number("year").or(number("y")) {
        Some(year) => first(&mut date(year).into_iter()),
        None => first(&mut [today.year(), today.year() + 1].into_iter().filter_map(date)),
    }
}

fn time(clock: &Captures<'_>, is_after_day: bool) -> Option<Time> {
    let number = |name: &str| clock.name(name).and_then(|number| number.as_str().parse::<i8>().ok());
    let (hour, minute) = (number("hour")?, number("minute"));
    let hour = match clock.name("half").map(|half| half.as_str()) {
        Some(half) if (1..=12).contains(&hour) => {
            hour % 12 + if half.eq_ignore_ascii_case("p") { 12 } else { 0 }
        }
        Some(_) => return None,
        // A bare number may be anything.
        None if minute.is_none() && !is_after_day => return None,
        None => hour,
    };
    Time::new(hour, minute.unwrap_or(0), 0, 0).ok()
}

/// Returns the moments at which a clock in `zone` shows this, in order: two where it is set back, and where
/// it is set forward and never shows it, what it shows instead.
fn moments(date: Date, time: Time, zone: &TimeZone) -> Vec<Timestamp> {
    let shown = zone.to_ambiguous_timestamp(date.to_datetime(time));
    let mut moments: Vec<Timestamp> = [shown.compatible(), shown.later()].into_iter().flatten().collect();
    moments.dedup();
    moments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now(text: &str, zone: &str) -> ZonedDateTime {
        text.parse::<Timestamp>().unwrap().to_zoned_datetime(TimeZone::posix(zone).unwrap())
    }

    /// At noon on a Tuesday in New York.
    fn noon() -> ZonedDateTime {
        now("2026-12-01T17:00:00Z", "EST5EDT,M3.2.0,M11.1.0")
    }

    #[track_caller]
    fn check(now: &ZonedDateTime, cases: &[(&str, Option<&str>)]) {
        for (text, expected) in cases {
            let found = reset_of(text, now).map(|moment| moment.to_string());
            assert_eq!(found.as_deref(), *expected, "{text}");
        }
    }

    #[test]
    fn moments_and_spans() {
        check(
            &noon(),
            &[
                ("Claude AI usage limit reached|1796200000", Some("2026-12-02T08:26:40Z")),
                ("usage limit reached|1796200000123", Some("2026-12-02T08:26:40.123Z")),
                ("usage limit reached|1735689600", None),
                ("usage limit reached|1935689600", None),
                (r#"{"resets_at":1796200000}"#, Some("2026-12-02T08:26:40Z")),
                ("limit resets at 2026-12-05T09:00:00Z", Some("2026-12-05T09:00:00Z")),
                ("available again 2026-12-05T09:00:00.5+01:00", Some("2026-12-05T08:00:00.5Z")),
                ("resets at 2026-11-05T09:00:00Z", None),
                ("2026-12-05T09:00:00Z ERROR rate limited", None),
                ("Retry-After: 30", Some("2026-12-01T17:00:30Z")),
                ("retry-after-ms: 1500", Some("2026-12-01T17:00:01.5Z")),
                (r#""resets_in_seconds":90"#, Some("2026-12-01T17:01:30Z")),
                ("Please try again in 1.2s.", Some("2026-12-01T17:00:01.2Z")),
                ("try again in 450ms", Some("2026-12-01T17:00:00.45Z")),
                ("or try again in 3 days 4 hours 12 minutes.", Some("2026-12-04T21:12:00Z")),
                ("try again in 1 day, 2 hours and 1 minute", Some("2026-12-02T19:01:00Z")),
                ("resets in 2h 13m", Some("2026-12-01T19:13:00Z")),
                ("Your quota will reset after 18h3m2s.", Some("2026-12-02T11:03:02Z")),
                ("retrying in 1 week", Some("2026-12-08T17:00:00Z")),
                ("try again in 61 days", None),
                ("try again in 1 month", Some("2026-12-31T17:00:00Z")),
                ("try again in 99999999999999999999 days", None),
                ("please wait 30 seconds", Some("2026-12-01T17:00:30Z")),
                ("try again later", None),
                ("wait for limits to reset (every 5h and every week.)", None),
                ("", None),
            ],
        );
    }

    #[test]
    fn times_of_day_are_the_next_ones() {
        check(
            &noon(),
            &[
                ("5-hour limit reached · resets 3pm", Some("2026-12-01T20:00:00Z")),
                ("resets at 3:45pm", Some("2026-12-01T20:45:00Z")),
                ("Your limit will reset at 1PM", Some("2026-12-01T18:00:00Z")),
                ("resets 15:45", Some("2026-12-01T20:45:00Z")),
                ("resets 9am", Some("2026-12-02T14:00:00Z")),
                ("resets 12pm", Some("2026-12-02T17:00:00Z")),
                ("resets 12am", Some("2026-12-02T05:00:00Z")),
                ("or try again at 5:20 PM.", Some("2026-12-01T22:20:00Z")),
                ("try again at 5:20 p.m.", Some("2026-12-01T22:20:00Z")),
                ("resets 7pm (UTC)", Some("2026-12-01T19:00:00Z")),
                ("resets 4pm (UTC)", Some("2026-12-02T16:00:00Z")),
                ("resets 3pm UTC", Some("2026-12-02T15:00:00Z")),
                ("resets 3pm (No/Where)", Some("2026-12-01T20:00:00Z")),
                ("resets 13pm", None),
                ("resets 25:00", None),
                ("resets 5", None),
            ],
        );
    }

    #[test]
    fn days_are_the_next_ones() {
        check(
            &noon(),
            &[
                ("resets Dec 5, 9am", Some("2026-12-05T14:00:00Z")),
                ("resets Dec 5 at 9am", Some("2026-12-05T14:00:00Z")),
                ("resets December 5th at 9:30am (UTC)", Some("2026-12-05T09:30:00Z")),
                ("try again at Dec 5th, 2026 3:14 PM.", Some("2026-12-05T20:14:00Z")),
                ("resets Dec 5", Some("2026-12-05T05:00:00Z")),
                ("resets 2026-12-05 09:00", Some("2026-12-05T14:00:00Z")),
                ("resets Jan 2, 9am", Some("2027-01-02T14:00:00Z")),
                ("resets Dec 1, 9am", None),
                ("resets Oct 6, 3pm", None),
                ("resets Feb 30, 3pm", None),
                ("try again at Dec 5th, 2025 3:14 PM.", None),
                ("resets Fri 9am", Some("2026-12-04T14:00:00Z")),
                ("resets Tuesday 1pm", Some("2026-12-01T18:00:00Z")),
                ("resets Tuesday 11am", Some("2026-12-08T16:00:00Z")),
                ("available again on Monday at 9:00 AM", Some("2026-12-07T14:00:00Z")),
                ("resets tomorrow at 3pm", Some("2026-12-02T20:00:00Z")),
                ("resets today at 3pm", Some("2026-12-01T20:00:00Z")),
            ],
        );
    }

    #[test]
    fn named_zones_are_those_of_the_system() {
        let expected = |zone: &str, there: &str| match TimeZone::get(zone) {
            Ok(_) => Some(there.to_owned()),
            // Without a time zone database it is the machine's own.
            Err(_) => Some("2026-12-01T20:00:00Z".to_owned()),
        };
        for (zone, there) in [
            ("America/New_York", "2026-12-01T20:00:00Z"),
            ("Europe/Berlin", "2026-12-02T14:00:00Z"),
            ("Asia/Kolkata", "2026-12-02T09:30:00Z"),
            ("Etc/GMT+5", "2026-12-01T20:00:00Z"),
        ] {
            let found = reset_of(&format!("resets 3pm ({zone})"), &noon()).map(|moment| moment.to_string());
            assert_eq!(found, expected(zone, there), "{zone}");
        }
    }

    #[test]
    fn clocks_that_are_set_forward_or_back() {
        let zone = "EST5EDT,M3.2.0,M11.1.0";
        // Half past two does not come on this night: it is half past three then.
        check(&now("2026-03-08T05:00:00Z", zone), &[("resets 2:30am", Some("2026-03-08T07:30:00Z"))]);
        // Half past one comes twice.
        let text = "resets 1:30am";
        check(&now("2026-11-01T05:00:00Z", zone), &[(text, Some("2026-11-01T05:30:00Z"))]);
        check(&now("2026-11-01T05:45:00Z", zone), &[(text, Some("2026-11-01T06:30:00Z"))]);
        check(&now("2026-11-01T06:45:00Z", zone), &[(text, Some("2026-11-02T06:30:00Z"))]);
    }
}
