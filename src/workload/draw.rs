//! Draws from the distributions that workloads are made of.
//!
//! Everything is computed from 64-bit integers, basic arithmetic and the pure-Rust `libm`, never from the
//! platform's mathematical library, whose last bit differs between systems: the same seed gives the same workload
//! on every machine. Distributions with a quantile function are drawn by inversion, one uniform each, so that a
//! changed parameter moves every draw a little instead of reshuffling all of them.

use rand::Rng as _;

use crate::rng::Rng;

/// Draws a number strictly between 0 and 1, a multiple of 2⁻⁵² plus 2⁻⁵³.
pub(crate) fn uniform(rng: &mut Rng) -> f64 {
    let bits = rng.next_u64() >> 12;
    (bits as f64 + 0.5) / (1u64 << 52) as f64
}

/// Draws an exponential variate of mean 1 by inversion.
pub(crate) fn exponential(rng: &mut Rng) -> f64 {
    -libm::log(uniform(rng))
}

/// Draws a gamma variate of mean 1 and coefficient of variation `cv` > 0.
///
/// Marsaglia and Tsang, "A simple method for generating gamma variables", ACM TOMS 26(3), 2000; shapes below 1
/// (cv > 1) are boosted as in its section 6.
pub(crate) fn gamma(rng: &mut Rng, cv: f64) -> f64 {
    let shape = 1.0 / (cv * cv);
    if shape >= 1.0 {
        return gamma_from_shape(rng, shape) / shape;
    }
    let power = libm::exp(libm::log(uniform(rng)) / shape);
    gamma_from_shape(rng, shape + 1.0) * power / shape
}

/// Draws a Weibull variate of mean 1 and the given shape by inversion.
pub(crate) fn weibull(rng: &mut Rng, shape: f64) -> f64 {
    let scale = 1.0 / libm::tgamma(1.0 + 1.0 / shape);
    scale * libm::pow(exponential(rng), 1.0 / shape)
}

/// Draws a gamma variate of the given shape (at least 1) and scale 1.
fn gamma_from_shape(rng: &mut Rng, shape: f64) -> f64 {
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / libm::sqrt(9.0 * d);
    loop {
        let x = normal_quantile(uniform(rng));
        let v = 1.0 + c * x;
        if v <= 0.0 {
            continue;
        }
        let v = v * v * v;
        if libm::log(uniform(rng)) < 0.5 * x * x + d - d * v + d * libm::log(v) {
            return d * v;
        }
    }
}

/// The standard normal distribution function.
pub(crate) fn normal_cdf(x: f64) -> f64 {
    0.5 * libm::erfc(-x / std::f64::consts::SQRT_2)
}

/// The standard normal quantile at `p` in (0, 1), to about 1e-9 relative.
///
/// Acklam's rational approximation, improved by one Halley step.
pub(crate) fn normal_quantile(p: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 6] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
        1.0,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 5] = [
        7.784_695_709_041_462e-3,
        3.224_671_290_700_398e-1,
        2.445_134_137_142_996,
        3.754_408_661_907_416,
        1.0,
    ];
    const TAIL: f64 = 0.024_25;
    let tail = |p: f64| {
        let q = libm::sqrt(-2.0 * libm::log(p));
        horner(&C, q) / horner(&D, q)
    };
    let x = if p < TAIL {
        tail(p)
    } else if p > 1.0 - TAIL {
        -tail(1.0 - p)
    } else {
        let q = p - 0.5;
        let r = q * q;
        horner(&A, r) * q / horner(&B, r)
    };
    let error = normal_cdf(x) - p;
    let step = error * libm::sqrt(2.0 * std::f64::consts::PI) * libm::exp(x * x / 2.0);
    x - step / (1.0 + x * step / 2.0)
}

/// Evaluates a polynomial whose first coefficient belongs to the highest power.
fn horner(coefficients: &[f64], x: f64) -> f64 {
    coefficients.iter().fold(0.0, |sum, c| sum * x + c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::stream;

    #[test]
    fn normal_quantile_inverts_the_distribution_function() {
        for p in [1e-9, 1e-4, 0.02, 0.3, 0.5, 0.8, 0.99, 1.0 - 1e-6] {
            let back = normal_cdf(normal_quantile(p));
            assert!((back / p - 1.0).abs() < 1e-8, "{p} came back as {back}");
        }
        assert!((normal_quantile(0.975) - 1.959_963_984_540_054).abs() < 1e-9);
    }

    fn mean_and_cv(n: u32, mut draw: impl FnMut() -> f64) -> (f64, f64) {
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..n {
            let x = draw();
            sum += x;
            squares += x * x;
        }
        let mean = sum / f64::from(n);
        (mean, (squares / f64::from(n) - mean * mean).sqrt() / mean)
    }

    #[test]
    fn gamma_has_mean_one_and_the_asked_variation() {
        for cv in [0.25, 1.0, 2.0, 4.0] {
            let mut rng = stream(7, "gamma");
            let (mean, seen) = mean_and_cv(400_000, || gamma(&mut rng, cv));
            // Five standard errors of the mean.
            assert!(
                (mean - 1.0).abs() < 5.0 * cv / 400_000_f64.sqrt(),
                "mean {mean} at cv {cv}"
            );
            assert!((seen / cv - 1.0).abs() < 0.05, "cv {seen} instead of {cv}");
        }
    }

    #[test]
    fn exponential_has_mean_and_variation_one() {
        let mut rng = stream(7, "exponential");
        let (mean, cv) = mean_and_cv(400_000, || exponential(&mut rng));
        assert!(
            (mean - 1.0).abs() < 0.01 && (cv - 1.0).abs() < 0.01,
            "{mean} {cv}"
        );
    }
}
