//! A chart as inline SVG: lines and areas over a common axis, with their names at their ends.
//!
//! The style sheet sets colours by class, so that a chart is readable on light and dark ground. Each chart is drawn
//! twice, for screens and for phones, because letters in a scaled-down drawing are unreadable.

use std::fmt::Write;

use super::axis::Axis;
use super::escape;

/// Something that is drawn over the x axis.
pub struct Series {
    /// Its name.
    pub name: String,
    /// Its colour: a class of the style sheet.
    pub class: &'static str,
    /// Points by rising x; `None` where nothing is known: the line is interrupted.
    pub points: Vec<(f64, Option<f64>)>,
    /// How it is drawn.
    pub form: Form,
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A line.
    Line,
    /// A thin dashed line.
    Dashed,
    /// A line, and a tint under it.
    Area,
    /// A filled area on top of the stacked ones before.
    Stacked,
}

/// A marked place on the x axis.
pub struct Mark {
    /// Where.
    pub x: f64,
    /// Its label.
    pub label: String,
    /// Class of the style sheet.
    pub class: &'static str,
}

/// A chart.
pub struct Chart {
    /// What is shown, with the unit, above the drawing.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// Title of the x axis; empty: it is elsewhere, and marks have no labels.
    pub x_title: &'static str,
    /// The vertical axis.
    pub y: Axis,
    /// The lines and areas.
    pub series: Vec<Series>,
    /// Vertical lines.
    pub marks: Vec<Mark>,
    /// Horizontal bands behind all: up to which value, class.
    pub bands: Vec<(f64, &'static str)>,
    /// Height of the plot, pixels.
    pub height: f64,
    /// The least room for names beside it, pixels.
    pub names_room: f64,
}

/// The room for names of this length, pixels.
pub fn room_for(characters: usize) -> f64 {
    (26.0 + 7.0 * characters as f64).clamp(132.0, 250.0)
}

/// The measures of a drawing, pixels.
struct Frame {
    width: f64,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    height: f64,
    /// How many marks the x axis has room for.
    marks: f64,
}

impl Chart {
    /// The chart, both ways.
    pub fn html(&self) -> String {
        if self.series.iter().all(|series| series.points.iter().all(|(_, value)| value.is_none())) {
            return String::new();
        }
        let mut html = format!("<figure><figcaption>{}</figcaption>", escape(&self.title));
        for (class, width, right, marks) in
            [("wide", 960.0, self.room_for_names(), 8.0), ("narrow", 380.0, 12.0, 4.0)]
        {
            let bottom = if self.x_title.is_empty() { 8.0 } else { 38.0 };
            let frame = Frame { width, left: 54.0, right, top: 10.0, bottom, height: self.height, marks };
            self.svg(&frame, class, &mut html);
        }
        self.legend(&mut html);
        html.push_str("</figure>\n");
        html
    }

    /// Charts below each other with names of about the same length have the same room, so that their axes agree.
    fn room_for_names(&self) -> f64 {
        let longest = self.series.iter().map(|series| series.name.chars().count()).max().unwrap_or(0);
        room_for(longest).max(self.names_room)
    }

    fn svg(&self, frame: &Frame, class: &str, html: &mut String) {
        let height = frame.top + frame.height + frame.bottom;
        // Writing to memory can't fail.
        let _ = write!(
            html,
            "<svg class=\"{class}\" viewBox=\"0 0 {} {height}\" role=\"img\" aria-label=\"{}\">",
            frame.width,
            escape(&self.title)
        );
        self.draw_bands(frame, html);
        self.draw_axes(frame, html);
        self.draw_series(frame, html);
        self.draw_marks(frame, html);
        if class == "wide" {
            self.name_lines(frame, html);
        }
        html.push_str("</svg>");
    }

    fn draw_bands(&self, frame: &Frame, html: &mut String) {
        let mut from = frame.y(0.0);
        for (until, class) in &self.bands {
            let to = frame.y(self.y.place(*until));
            let (y, height) = (to, from - to);
            if height > 0.5 {
                let (x, width) = (frame.left, frame.plot());
                let _ = write!(
                    html,
                    "<rect class=\"band {class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
                );
            }
            from = to;
        }
    }

    fn draw_axes(&self, frame: &Frame, html: &mut String) {
        let (left, end) = (frame.left, frame.left + frame.plot());
        for mark in self.y.marks((frame.height / 34.0).clamp(2.0, 6.0)) {
            let y = frame.y(self.y.place(mark));
            let _ = write!(
                html,
                "<line class=\"grid\" x1=\"{left}\" x2=\"{end:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 7.0,
                y + 4.0,
                escape(&(self.y.format)(mark))
            );
        }
        let base = frame.y(0.0);
        let _ = write!(
            html,
            "<line class=\"axis\" x1=\"{left}\" x2=\"{end:.1}\" y1=\"{base:.1}\" y2=\"{base:.1}\"/>"
        );
        for mark in self.x.marks(frame.marks) {
            let x = frame.x(self.x.place(mark));
            let _ = write!(
                html,
                "<line class=\"axis\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{base:.1}\" y2=\"{:.1}\"/>",
                base + 4.0
            );
            if !self.x_title.is_empty() {
                let label = escape(&(self.x.format)(mark));
                let _ = write!(
                    html,
                    "<text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
                    base + 17.0
                );
            }
        }
        let _ = write!(
            html,
            "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            (left + end) / 2.0,
            base + 33.0,
            self.x_title
        );
    }

    fn draw_series(&self, frame: &Frame, html: &mut String) {
        let mut floor: Vec<f64> = Vec::new();
        for series in &self.series {
            if series.form == Form::Stacked {
                self.draw_stacked(frame, series, &mut floor, html);
                continue;
            }
            for run in runs(&series.points) {
                let place = |(x, y): &(f64, f64)| (frame.x(self.x.place(*x)), frame.y(self.y.place(*y)));
                let placed: Vec<(f64, f64)> = run.iter().map(place).collect();
                draw_run(frame, series, &placed, html);
            }
        }
    }

    /// On top of `floor`, which it raises.
    fn draw_stacked(&self, frame: &Frame, series: &Series, floor: &mut Vec<f64>, html: &mut String) {
        floor.resize(series.points.len(), 0.0);
        let x = |index: usize| frame.x(self.x.place(series.points[index].0));
        let below: Vec<(f64, f64)> =
            floor.iter().enumerate().map(|(i, value)| (x(i), frame.y(self.y.place(*value)))).collect();
        for (value, (_, more)) in floor.iter_mut().zip(&series.points) {
            *value += more.unwrap_or(0.0);
        }
        let mut outline: Vec<(f64, f64)> =
            floor.iter().enumerate().map(|(i, value)| (x(i), frame.y(self.y.place(*value)))).collect();
        outline.extend(below.into_iter().rev());
        let _ = write!(html, "<path class=\"stack {}\" d=\"{}Z\"/>", series.class, path(&outline));
    }

    fn draw_marks(&self, frame: &Frame, html: &mut String) {
        for mark in &self.marks {
            let x = frame.x(self.x.place(mark.x));
            let base = frame.y(0.0);
            let near_end = x > frame.left + frame.plot() * 0.6;
            let (anchor, shift) = if near_end { ("end", -5.0) } else { ("start", 5.0) };
            let _ = write!(
                html,
                "<line class=\"mark {}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{}\" y2=\"{base:.1}\"/>\
                 <text class=\"note {}\" x=\"{:.1}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
                mark.class,
                frame.top,
                mark.class,
                x + shift,
                frame.top + 11.0,
                escape(&mark.label)
            );
        }
    }

    /// The names of lines, each as near to its end as others allow.
    fn name_lines(&self, frame: &Frame, html: &mut String) {
        const LINE: f64 = 16.0;
        let mut ends: Vec<(f64, &Series)> = Vec::new();
        for series in self.series.iter().filter(|series| series.form != Form::Stacked) {
            if let Some(last) = series.points.iter().rev().find_map(|(_, value)| *value) {
                ends.push((frame.y(self.y.place(last)), series));
            }
        }
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut free = frame.top;
        for (y, _) in &mut ends {
            *y = y.max(free);
            free = *y + LINE;
        }
        // Too low: back up again from the end.
        let mut limit = frame.top + frame.height;
        for (y, _) in ends.iter_mut().rev() {
            *y = y.min(limit);
            limit = *y - LINE;
        }
        for (y, series) in ends {
            let x = frame.left + frame.plot() + 8.0;
            let _ = write!(
                html,
                "<circle class=\"dot {}\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4\"/>\
                 <text class=\"name\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                series.class,
                x + 2.0,
                x + 11.0,
                y + 4.0,
                escape(&series.name)
            );
        }
    }

    /// Names of all series; on screens only where they don't stand at the lines.
    fn legend(&self, html: &mut String) {
        if self.series.len() < 2 && self.series.iter().all(|series| series.form != Form::Stacked) {
            return;
        }
        let stacked = self.series.iter().any(|series| series.form == Form::Stacked);
        html.push_str(if stacked { "<ul class=\"legend\">" } else { "<ul class=\"legend narrow\">" });
        for series in &self.series {
            let dashed = if series.form == Form::Dashed { " dashed" } else { "" };
            let _ =
                write!(html, "<li><i class=\"{}{dashed}\"></i>{}</li>", series.class, escape(&series.name));
        }
        html.push_str("</ul>");
    }
}

impl Frame {
    fn plot(&self) -> f64 {
        self.width - self.left - self.right
    }

    fn x(&self, place: f64) -> f64 {
        self.left + place * self.plot()
    }

    fn y(&self, place: f64) -> f64 {
        self.top + (1.0 - place) * self.height
    }
}

/// A line without gaps; a single point is a dot.
fn draw_run(frame: &Frame, series: &Series, placed: &[(f64, f64)], html: &mut String) {
    let class = series.class;
    let (&[first, ..], &[.., last]) = (placed, placed) else { return };
    if placed.len() == 1 {
        let _ = write!(
            html,
            "<circle class=\"dot {class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\"/>",
            first.0, first.1
        );
        return;
    }
    let line = path(placed);
    if series.form == Form::Area {
        let base = frame.y(0.0);
        let _ = write!(
            html,
            "<path class=\"area {class}\" d=\"{line}L{:.1} {base:.1}L{:.1} {base:.1}Z\"/>",
            last.0, first.0
        );
    }
    let dashed = if series.form == Form::Dashed { " dashed" } else { "" };
    let _ = write!(html, "<path class=\"line {class}{dashed}\" d=\"{line}\"/>");
}

/// The stretches of points that have a value.
fn runs(points: &[(f64, Option<f64>)]) -> Vec<Vec<(f64, f64)>> {
    let mut runs: Vec<Vec<(f64, f64)>> = Vec::new();
    for stretch in points.split(|(_, value)| value.is_none()) {
        let run: Vec<(f64, f64)> = stretch.iter().filter_map(|(x, value)| value.map(|v| (*x, v))).collect();
        if !run.is_empty() {
            runs.push(run);
        }
    }
    runs
}

fn path(points: &[(f64, f64)]) -> String {
    let mut path = String::with_capacity(points.len() * 12);
    for (index, (x, y)) in points.iter().enumerate() {
        let _ = write!(path, "{}{x:.1} {y:.1}", if index == 0 { 'M' } else { 'L' });
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::figures::brief;

    fn chart(points: Vec<(f64, Option<f64>)>, form: Form) -> Chart {
        Chart {
            title: "a < b".to_owned(),
            x: Axis::exact(0.0, 10.0, brief),
            x_title: "users",
            y: Axis::linear(10.0, brief),
            series: vec![Series { name: "<p50>".to_owned(), class: "a", points, form }],
            marks: vec![Mark { x: 5.0, label: "here & now".to_owned(), class: "bad" }],
            bands: vec![(5.0, "good")],
            height: 100.0,
            names_room: 0.0,
        }
    }

    #[test]
    fn lines_are_interrupted_where_nothing_is_known() {
        let html =
            chart(vec![(0.0, Some(0.0)), (1.0, Some(10.0)), (2.0, None), (3.0, Some(5.0))], Form::Area)
                .html();
        assert_eq!(html.matches("class=\"line a\"").count(), 2, "one line, in both drawings");
        assert_eq!(html.matches("r=\"3.5\"").count(), 2, "and a dot");
        assert!(html.contains("M54.0 110.0L131.4 10.0"), "{html}");
        assert!(html.contains("a &lt; b") && html.contains("&lt;p50&gt;") && html.contains("here &amp; now"));
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        assert_eq!(chart(vec![(0.0, None)], Form::Line).html(), "");
        assert_eq!(chart(Vec::new(), Form::Stacked).html(), "");
    }

    #[test]
    fn stacks_rise() {
        let mut stacked = chart(vec![(0.0, Some(2.0)), (10.0, Some(2.0))], Form::Stacked);
        stacked.series.push(Series {
            name: "more".to_owned(),
            class: "b",
            points: vec![(0.0, None), (10.0, Some(8.0))],
            form: Form::Stacked,
        });
        let html = stacked.html();
        // The second one lies on the first: from 2 at the left to 10 at the right.
        assert!(
            html.contains("class=\"stack b\" d=\"M54.0 90.0L828.0 10.0L828.0 90.0L54.0 90.0Z\""),
            "{html}"
        );
    }
}
