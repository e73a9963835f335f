//! Figures as texts for people.

use unslide_model::figures::{format_bytes, format_decimals, format_duration};
use unslide_store::queries::session::SessionFigure;

/// Formats a value of a metric.
pub(crate) fn format_value(unit: &str, value: f64) -> String {
    match unit {
        "ms" => format_duration(positive(value)),
        "B" => format_bytes(positive(value)),
        "ms/h" => format!("{} an hour", format_duration(positive(value))),
        "B/h" => format!("{} an hour", format_bytes(positive(value))),
        "1/h" => format_decimals(value, 2),
        "%/h" => format!("{} % an hour", format_decimals(value, 1)),
        unit => format!("{} {unit}", format_decimals(value, 1)),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a figure for people")]
pub(crate) fn whole(value: f64) -> i64 {
    value.round() as i64
}

pub(crate) fn positive(value: f64) -> u64 {
    u64::try_from(whole(value)).unwrap_or(0)
}

/// Describes the figures of a session in one line, such as `launch time 812 ms · hang time 3 times, 250 ms to 1 s, median
/// 300 ms`.
pub(crate) fn describe_figures(figures: &[SessionFigure]) -> String {
    figures.iter().map(describe_figure).collect::<Vec<_>>().join(" · ")
}

fn describe_figure(figure: &SessionFigure) -> String {
    let name = figure.metric.replace('_', " ");
    let values = || count_text(figure.count, "value", "values");
    let value = |value: f64| format_value(&figure.unit, value);
    match (figure.lowest, figure.median, figure.highest) {
        (Some(lowest), Some(median), Some(highest)) if lowest < highest => {
            format!("{name} {}, {} to {}, median {}", values(), value(lowest), value(highest), value(median))
        }
        (Some(lowest), ..) if figure.count > 1 => {
            format!("{name} {}, each {}", values(), value(lowest))
        }
        (Some(lowest), ..) => match &figure.state {
            Some(state) => format!("{name} {}, {state}", value(lowest)),
            None => format!("{name} {}", value(lowest)),
        },
        _ => {
            let failed = figure.failed.unwrap_or_default();
            format!("{}, {failed} failed", count_text(figure.count, "request", "requests"))
        }
    }
}

fn count_text(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_session_are_one_line() {
        let figure = |metric: &str, unit: &str, count, values: Option<[f64; 3]>| SessionFigure {
            metric: metric.to_owned(),
            unit: unit.to_owned(),
            count,
            failed: values.is_none().then_some(1),
            lowest: values.map(|values| values[0]),
            median: values.map(|values| values[1]),
            highest: values.map(|values| values[2]),
            state: (unit == "%").then(|| "unplugged".to_owned()),
        };
        let figures = [
            figure("requests", "1", 12, None),
            figure("launch_time", "ms", 1, Some([812.0; 3])),
            figure("frame_rate", "fps", 3, Some([30.0, 58.5, 60.0])),
            figure("hitch_ratio", "ms/s", 2, Some([1.5; 3])),
            figure("battery_at_end", "%", 1, Some([81.0; 3])),
        ];
        assert_eq!(
            describe_figures(&figures),
            "12 requests, 1 failed · launch time 812 ms · frame rate 3 values, 30.0 fps to 60.0 fps, median 58.5 fps · \
             hitch ratio 2 values, each 1.5 ms/s · battery at end 81.0 %, unplugged"
        );
    }
}
