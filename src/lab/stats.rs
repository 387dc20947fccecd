//! Statistics of small samples.

use serde::Serialize;

/// The `share` quantile (0 to 1; 0.5 is the median), interpolated between the nearest two values (Hyndman and Fan, 1996,
/// type 7, as NumPy and R do). NaN for no values.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = share * (sorted.len().saturating_sub(1)) as f64;
    let value = |index: f64| sorted.get(index as usize).copied().unwrap_or(f64::NAN);
    let (low, high) = (value(at.floor()), value(at.ceil()));
    low + (high - low) * at.fract()
}

/// The median. NaN for no values.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The mean. NaN for no values.
pub fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (sum, count) = values.into_iter().fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / count
}

/// A measured time: the median of some repeats, and their range.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// Of at least one value.
    pub fn of(values: &[f64]) -> Self {
        Self { median: median(values), min: quantile(values, 0.0), max: quantile(values, 1.0) }
    }
}

/// A straight line through points, by least squares.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(ts_rs::TS))]
pub struct Line {
    /// The value at 0.
    pub intercept: f64,
    /// What each unit adds.
    pub slope: f64,
    /// The share of the variance that the line explains, 0 to 1.
    pub r2: f64,
    /// What each point has above the line, in their order.
    pub residuals: Vec<f64>,
}

impl Line {
    /// Through points `(x, y)`; `None` if all have the same `x`.
    pub fn through(points: &[(f64, f64)]) -> Option<Self> {
        let mean_x = mean(points.iter().map(|(x, _)| *x));
        let mean_y = mean(points.iter().map(|(_, y)| *y));
        let sum =
            |term: &dyn Fn(f64, f64) -> f64| points.iter().map(|&(x, y)| term(x - mean_x, y - mean_y)).sum::<f64>();
        let (xx, xy, yy) = (sum(&|x, _| x * x), sum(&|x, y| x * y), sum(&|_, y| y * y));
        if points.is_empty() || xx == 0.0 {
            return None;
        }
        let slope = xy / xx;
        let intercept = mean_y - slope * mean_x;
        let residuals = points.iter().map(|(x, y)| y - (intercept + slope * x)).collect();
        Some(Self { intercept, slope, r2: if yy == 0.0 { 1.0 } else { xy * xy / (xx * yy) }, residuals })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_interpolated() {
        let values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!([0.0, 0.25, 0.5, 1.0].map(|share| quantile(&values, share)), [1.0, 1.75, 2.5, 4.0]);
        assert!(quantile(&[], 0.5).is_nan());
        assert_eq!(Spread::of(&[5.0, 7.0, 1.0]), Spread { median: 5.0, min: 1.0, max: 7.0 });
    }

    #[test]
    fn the_line_is_that_of_least_squares() {
        // By hand: the means are 2 and 3, the sum of squares of x is 2, that of products 5/3.
        let line = Line::through(&[(1.0, 2.0), (2.0, 3.0 + 1.0 / 3.0), (3.0, 11.0 / 3.0)]).unwrap();
        assert!((line.slope - 5.0 / 6.0).abs() < 1e-12, "{line:?}");
        assert!((line.intercept - (3.0 - 5.0 / 3.0)).abs() < 1e-12, "{line:?}");
        assert!(line.residuals.iter().sum::<f64>().abs() < 1e-12);
        let exact = Line::through(&[(0.0, 1.0), (2.0, 5.0)]).unwrap();
        assert_eq!((exact.intercept, exact.slope, exact.r2), (1.0, 2.0, 1.0));
        assert_eq!(Line::through(&[(1.0, 2.0), (1.0, 3.0)]), None);
    }
}
