//! The look of every chart: colours, dashes, sizes, fonts.

use std::sync::{Arc, OnceLock};

use plotters::style::{FontStyle, RGBColor, register_font};
use resvg::usvg::fontdb;

/// Drawing units per design pixel. plotters rounds to whole units, so lines are drawn four times finer than designed
/// and scaled down.
pub(super) const UNIT: i32 = 4;

/// Scale from drawing units to pixels of the PNG, which has two per design pixel.
pub(super) const TO_PIXELS: f32 = 0.5;

/// Design width of a figure.
pub(super) const WIDTH: i32 = 960;

/// Design height of the only panel of a figure.
pub(super) const PANEL_HEIGHT: i32 = 430;

/// Design height of each of several stacked panels.
pub(super) const STACKED_HEIGHT: i32 = 235;

/// Size of the title in design pixels.
pub(super) const TITLE: i32 = 20;

/// Size of the subtitle.
pub(super) const SUBTITLE: i32 = 14;

/// Size of the legend and of axis names.
pub(super) const LABEL: i32 = 15;

/// Size of numbers at the axes and of notes at lines.
pub(super) const TICK: i32 = 14;

/// Nearly black, for text and axes.
pub(super) const INK: RGBColor = RGBColor(34, 34, 34);

/// Subtitles and reference lines.
pub(super) const GREY: RGBColor = RGBColor(95, 95, 95);

/// The grid.
pub(super) const GRID: RGBColor = RGBColor(226, 226, 226);

/// How the lines of one system look in every chart.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    pub(super) colour: RGBColor,
    /// Length of dash and of gap in design pixels; none for a solid line.
    pub(super) dash: Option<(i32, i32)>,
    pub(super) marker: Marker,
}

/// Shapes of data points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Marker {
    Circle,
    Square,
    Triangle,
    Diamond,
}

/// The palette of Okabe and Ito, told apart with any colour vision, without its yellow, which is too light on white.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];

const DASHES: [Option<(i32, i32)>; 4] = [None, Some((10, 5)), Some((3, 3)), Some((18, 4))];

const MARKERS: [Marker; 4] = [
    Marker::Circle,
    Marker::Square,
    Marker::Triangle,
    Marker::Diamond,
];

/// The look of the `system`-th system. Neighbours differ in colour, dash and marker; 28 systems differ in one of them.
pub(super) const fn look(system: usize) -> Look {
    Look {
        colour: COLOURS[system % COLOURS.len()],
        dash: DASHES[system % DASHES.len()],
        marker: MARKERS[system % MARKERS.len()],
    }
}

/// The family name that plotters writes and resvg looks up.
pub(super) const FAMILY: &str = "sans-serif";

const REGULAR: &[u8] = include_bytes!("../fonts/DejaVuSans.ttf");
const BOLD: &[u8] = include_bytes!("../fonts/DejaVuSans-Bold.ttf");

/// Registers the fonts with plotters, which measures text, once.
pub(super) fn register_fonts() -> Result<(), String> {
    static DONE: OnceLock<bool> = OnceLock::new();
    let done = DONE.get_or_init(|| {
        register_font(FAMILY, FontStyle::Normal, REGULAR).is_ok()
            && register_font(FAMILY, FontStyle::Bold, BOLD).is_ok()
    });
    done.then_some(())
        .ok_or_else(|| "the embedded font is damaged".to_owned())
}

/// The fonts for resvg.
pub(super) fn fonts() -> Arc<fontdb::Database> {
    static FONTS: OnceLock<Arc<fontdb::Database>> = OnceLock::new();
    let fonts = FONTS.get_or_init(|| {
        let mut database = fontdb::Database::new();
        database.load_font_data(REGULAR.to_vec());
        database.load_font_data(BOLD.to_vec());
        database.set_sans_serif_family("DejaVu Sans");
        Arc::new(database)
    });
    Arc::clone(fonts)
}
