//! The widest strip between upper and lower bounds, and where bounds leave no room for one.

/// A clock that gains or loses more is broken: 500 ppm, as in NTP.
const MOST: f64 = 500e-6;
/// Exchanges that are too few to be divided.
const FEW: usize = 8;

type Point = (f64, f64);

/// The line of the offset between two steps.
#[derive(Clone, Debug)]
pub(super) struct Strip {
    /// The time of its exchanges.
    pub(super) from: f64,
    pub(super) to: f64,
    /// The drift.
    pub(super) slope: f64,
    /// The drifts of all lines between the bounds.
    pub(super) slopes: (f64, f64),
    /// Offset at time 0, in the middle of the strip.
    at_zero: f64,
    /// Hulls of the bounds.
    upper: Vec<Point>,
    lower: Vec<Point>,
}

/// The corners of the lower convex hull of points in order of time (`sign` 1), or of the upper one (−1).
fn hull(points: impl Iterator<Item = Point>, sign: f64) -> Vec<Point> {
    let mut corners: Vec<Point> = Vec::new();
    for (x, y) in points {
        while let [.., (ax, ay), (bx, by)] = corners[..] {
            // b is above the line from a to the new point.
            if sign * ((by - ay) * (x - ax) - (y - ay) * (bx - ax)) < 0.0 {
                break;
            }
            corners.pop();
        }
        corners.push((x, y));
    }
    corners
}

/// The smallest height of these corners above a line of this slope through 0.
fn least(corners: &[Point], slope: f64) -> f64 {
    corners.iter().map(|(x, y)| y - slope * x).fold(f64::INFINITY, f64::min)
}

fn most(corners: &[Point], slope: f64) -> f64 {
    corners.iter().map(|(x, y)| y - slope * x).fold(f64::NEG_INFINITY, f64::max)
}

/// The hull's height at a time within it.
fn height(corners: &[Point], t: f64) -> Option<f64> {
    let after = corners.partition_point(|corner| corner.0 < t);
    let &(bx, by) = corners.get(after)?;
    if bx == t {
        return Some(by);
    }
    let &(ax, ay) = corners.get(after.checked_sub(1)?)?;
    Some(ay + (by - ay) * (t - ax) / (bx - ax))
}

impl Strip {
    fn new(bounds: &[[Point; 2]]) -> Strip {
        let upper = hull(bounds.iter().map(|bound| bound[0]), 1.0);
        // Answers may overtake each other.
        let mut returned: Vec<Point> = bounds.iter().map(|bound| bound[1]).collect();
        returned.sort_by(|a, b| a.0.total_cmp(&b.0));
        let lower = hull(returned.into_iter(), -1.0);
        let ends = |corners: &[Point]| Some((corners.first()?.0, corners.last()?.0));
        let (from, to) =
            ends(&upper).zip(ends(&lower)).map_or((0.0, 0.0), |(a, b)| (a.0.min(b.0), a.1.max(b.1)));
        let mut strip = Strip { from, to, slope: 0.0, slopes: (0.0, 0.0), at_zero: 0.0, upper, lower };
        strip.widen();
        strip
    }

    /// The height of the strip with this slope: a concave function, bent where the slope is that of a hull's edge.
    fn gap(&self, slope: f64) -> f64 {
        least(&self.upper, slope) - most(&self.lower, slope)
    }

    /// Choose the slope of the widest strip.
    fn widen(&mut self) {
        self.slopes = (-MOST, MOST);
        if self.upper.len() < 2 || self.lower.len() < 2 {
            // A single exchange does not determine the drift.
            self.at_zero = f64::midpoint(least(&self.upper, 0.0), most(&self.lower, 0.0));
            return;
        }
        let edges = |corners: &[Point]| -> Vec<f64> {
            corners.windows(2).map(|pair| (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0)).collect()
        };
        let mut slopes = [edges(&self.upper), edges(&self.lower), vec![-MOST, MOST, 0.0]].concat();
        slopes.retain(|slope| slope.abs() <= MOST);
        slopes.sort_by(f64::total_cmp);
        let widest = slopes.iter().map(|&slope| self.gap(slope)).fold(f64::NEG_INFINITY, f64::max);
        // If an upper edge is parallel to a lower one, several slopes are equally good: take the middle of them.
        let best: Vec<f64> = slopes.iter().copied().filter(|&s| self.gap(s) >= widest - 1e-6).collect();
        self.slope = match best[..] {
            [] => 0.0,
            [first, .., last] => f64::midpoint(first, last),
            [only] => only,
        };
        self.at_zero = f64::midpoint(least(&self.upper, self.slope), most(&self.lower, self.slope));
        self.slopes = (self.last_slope(-MOST), self.last_slope(MOST));
    }

    /// The last slope towards `end` that leaves room for a line.
    fn last_slope(&self, end: f64) -> f64 {
        if self.gap(end) >= 0.0 {
            return end;
        }
        let (mut inside, mut outside) = (self.slope, end);
        for _ in 0..50 {
            let middle = f64::midpoint(inside, outside);
            if self.gap(middle) >= 0.0 { inside = middle } else { outside = middle }
        }
        inside
    }

    fn width(&self) -> f64 {
        self.gap(self.slope)
    }

    /// The offset in the middle of the strip.
    pub(super) fn middle(&self, t: f64) -> f64 {
        self.at_zero + self.slope * t
    }

    /// Between which offsets all lines pass that the bounds leave.
    pub(super) fn bounds(&self, t: f64) -> (f64, f64) {
        (self.beyond(&self.lower, t, -1.0), self.beyond(&self.upper, t, 1.0))
    }

    /// The hull's height; outside it, that of the line through its end with the steepest possible slope.
    fn beyond(&self, corners: &[Point], t: f64, sign: f64) -> f64 {
        if let Some(height) = height(corners, t) {
            return height;
        }
        let end =
            if corners.last().is_some_and(|last| last.0 < t) { corners.last() } else { corners.first() };
        let Some(&(x, y)) = end else { return 0.0 };
        let paths = [y + self.slopes.0 * (t - x), y + self.slopes.1 * (t - x)];
        if sign > 0.0 { paths[0].max(paths[1]) } else { paths[0].min(paths[1]) }
    }
}

/// The strips between the steps of a series in order of time.
pub(super) fn pieces(bounds: &[[Point; 2]]) -> Vec<Strip> {
    let whole = Strip::new(bounds);
    let least = bounds.iter().map(|bound| bound[0].1 - bound[1].1).fold(f64::INFINITY, f64::min);
    // As wide as the least round trip, so no clock stepped.
    if bounds.len() < FEW || whole.width() >= 0.8 * least.max(0.0) && whole.width() >= 0.0 {
        return vec![whole];
    }
    let at = divide(bounds);
    let (before, after) = (Strip::new(&bounds[..at]), Strip::new(&bounds[at..]));
    let (a, b) = (before.width(), after.width());
    let thinner = a.min(b);
    let alike = (a - b).abs() < 0.5 * (thinner - whole.width());
    let stepped = thinner > 0.0 && whole.width() < 0.7 * thinner && alike;
    if stepped || whole.width() < 0.0 {
        return [pieces(&bounds[..at]), pieces(&bounds[at..])].concat();
    }
    vec![whole]
}

/// Where both parts have the widest strips: the strip before only thins, and the one after only widens, the later it is.
fn divide(bounds: &[[Point; 2]]) -> usize {
    let (mut low, mut high) = (1, bounds.len() - 1);
    while low < high {
        let middle = low.midpoint(high);
        if Strip::new(&bounds[..middle]).width() > Strip::new(&bounds[middle..]).width() {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    // The last position at which the strip before it was still the wider one, or the next position.
    let thinner = |at: usize| Strip::new(&bounds[..at]).width().min(Strip::new(&bounds[at..]).width());
    if low > 1 && thinner(low - 1) > thinner(low) { low - 1 } else { low }
}
