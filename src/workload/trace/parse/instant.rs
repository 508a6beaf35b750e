//! Calendar times.

use crate::units::PS_PER_S;
use crate::workload::trace::parse::columns::whole;
use crate::workload::trace::parse::decimal::picoseconds;

/// Parses `YYYY-MM-DD hh:mm:ss[.fraction][Z|±hh:mm]` into picoseconds since 1970-01-01 UTC, and whether
/// there was a zone.
pub(crate) fn instant(text: &[u8]) -> Option<(i128, bool)> {
    let (date, time) = (text.get(..10)?, text.get(11..)?);
    if !matches!(text[10], b' ' | b'T') || time.get(2) != Some(&b':') || time.get(5) != Some(&b':')
    {
        return None;
    }
    let (hour, minute) = (whole(time.get(..2)?)?, whole(time.get(3..5)?)?);
    let rest = time.get(6..)?;
    let zone_at = rest
        .iter()
        .position(|byte| matches!(byte, b'Z' | b'+' | b'-'))
        .unwrap_or(rest.len());
    let second = picoseconds(&rest[..zone_at], PS_PER_S)?;
    if hour > 23 || minute > 59 || second >= 61 * i128::from(PS_PER_S) {
        return None;
    }
    let seconds =
        days(date)? * 86_400 + i64::from(hour * 3600 + minute * 60) - offset(&rest[zone_at..])?;
    let at = i128::from(seconds) * i128::from(PS_PER_S) + second;
    Some((at, zone_at < rest.len()))
}

/// Days from 1970-01-01 to a Gregorian date `YYYY-MM-DD`.
fn days(date: &[u8]) -> Option<i64> {
    const BEFORE: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    if date[4] != b'-' || date[7] != b'-' {
        return None;
    }
    let year = i64::from(whole(&date[..4])?);
    let (month, day) = (whole(&date[5..7])?, whole(&date[8..])?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        4 | 6 | 9 | 11 => 30,
        2 => 28 + u32::from(leap),
        _ => 31,
    };
    if !(1..=12).contains(&month) || !(1..=length).contains(&day) || year < 1 {
        return None;
    }
    let past = year - 1;
    let to_year = past * 365 + past / 4 - past / 100 + past / 400;
    let in_year = BEFORE[month as usize - 1] + i64::from(leap && month > 2) + i64::from(day) - 1;
    // 719162 days lie between 0001-01-01 and 1970-01-01.
    Some(to_year + in_year - 719_162)
}

/// Seconds east of UTC; 0 for no zone.
fn offset(zone: &[u8]) -> Option<i64> {
    if zone.is_empty() || zone == b"Z" {
        return Some(0);
    }
    let hour = whole(zone.get(1..3)?)?;
    let minute = match zone.get(3..)? {
        [] => 0,
        [b':', minute @ ..] | minute => whole(minute)?,
    };
    if hour > 18 || minute > 59 {
        return None;
    }
    let seconds = i64::from(hour * 3600 + minute * 60);
    Some(if zone[0] == b'-' { -seconds } else { seconds })
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i128 = PS_PER_S as i128;

    #[test]
    fn times_are_exact_to_their_last_digit() {
        let instant = |text: &[u8]| instant(text).map(|(at, _)| at);
        assert_eq!(instant(b"1970-01-01 00:00:00"), Some(0));
        assert_eq!(instant(b"2000-03-01 00:00:00"), Some(951_868_800 * S));
        assert_eq!(
            instant(b"2023-11-16 18:17:03.9799600"),
            Some(1_700_158_623 * S + 979_960_000_000)
        );
        assert_eq!(
            instant(b"2024-05-10 02:00:00.009930+02:00"),
            Some(1_715_299_200 * S + 9_930_000_000)
        );
        assert_eq!(instant(b"2024-05-10T00:00:00Z"), Some(1_715_299_200 * S));
        assert!(super::instant(b"2024-05-10 00:00:00Z").unwrap().1);
        assert!(!super::instant(b"2024-05-10 00:00:00").unwrap().1);
    }

    #[test]
    fn impossible_times_are_refused() {
        for text in [
            "",
            "2023-11-16",
            "2023-13-01 00:00:00",
            "2023-02-29 00:00:00",
            "2023-11-16 24:00:00",
            "2023-11-16 18:60:00",
            "2023-11-16 18:00:61",
            "2023-11-16 18:00:00+ab",
            "2023-11-16 18:00",
            "12.5",
        ] {
            assert_eq!(instant(text.as_bytes()), None, "{text}");
        }
    }
}
