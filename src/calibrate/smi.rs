//! Clocks, temperature, power and neighbours, as `nvidia-smi` tells them.
//!
//! The tool comes with every driver; where it is missing or does not know a field, the field is unknown.

use std::process::Command;

use serde::{Deserialize, Serialize};

/// The state of a GPU at one moment.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Conditions {
    /// Driver version.
    pub driver: Option<String>,
    /// Clock of the multiprocessors in MHz.
    pub sm_clock_mhz: Option<f64>,
    /// Its maximum in MHz.
    pub max_sm_clock_mhz: Option<f64>,
    /// Memory clock in MHz.
    pub memory_clock_mhz: Option<f64>,
    /// Power limit in watts.
    pub power_limit_w: Option<f64>,
    /// Temperature in °C.
    pub temperature_c: Option<f64>,
    /// Whether memory errors are corrected.
    pub ecc: Option<bool>,
    /// Whether the GPU is cut into instances.
    pub mig: Option<bool>,
}

/// Another process on the GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighbour {
    /// Its process id.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Device memory it holds, in MiB, where known.
    pub memory_mib: Option<u64>,
}

const FIELDS: &str = "driver_version,clocks.current.sm,clocks.max.sm,clocks.current.memory,power.limit,\
temperature.gpu,ecc.mode.current,mig.mode.current";

/// Asks for the state of the GPU with this UUID (`GPU-…`); all unknown when the tool does not answer.
#[must_use]
pub fn conditions(uuid: &str) -> Conditions {
    ask(&[&format!("--query-gpu={FIELDS}"), "--id", uuid])
        .map_or_else(Conditions::default, |text| parse_conditions(&text))
}

/// Asks for the other processes on the GPU with this UUID; `own` is left out.
#[must_use]
pub fn neighbours(uuid: &str, own: u32) -> Vec<Neighbour> {
    let query = "--query-compute-apps=pid,process_name,used_memory";
    let text = ask(&[query, "--id", uuid]).unwrap_or_default();
    parse_neighbours(&text)
        .into_iter()
        .filter(|n| n.pid != own)
        .collect()
}

fn ask(arguments: &[&str]) -> Option<String> {
    let output = Command::new("nvidia-smi")
        .args(arguments)
        .arg("--format=csv,noheader,nounits")
        .output()
        .ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn parse_conditions(text: &str) -> Conditions {
    let line = text.lines().next().unwrap_or_default();
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let field = |i: usize| {
        fields
            .get(i)
            .copied()
            .filter(|f| !f.starts_with('[') && !f.is_empty())
    };
    let number = |i| field(i).and_then(|f: &str| f.parse().ok());
    let switch = |i| match field(i) {
        Some("Enabled") => Some(true),
        Some("Disabled") => Some(false),
        _ => None,
    };
    Conditions {
        driver: field(0).map(str::to_owned),
        sm_clock_mhz: number(1),
        max_sm_clock_mhz: number(2),
        memory_clock_mhz: number(3),
        power_limit_w: number(4),
        temperature_c: number(5),
        ecc: switch(6),
        mig: switch(7),
    }
}

fn parse_neighbours(text: &str) -> Vec<Neighbour> {
    let process = |line: &str| {
        // A process name may hold commas; the number at each end does not.
        let (pid, rest) = line.split_once(',')?;
        let (name, memory) = rest.rsplit_once(',')?;
        Some(Neighbour {
            pid: pid.trim().parse().ok()?,
            name: name.trim().to_owned(),
            memory_mib: memory.trim().parse().ok(),
        })
    };
    text.lines().filter_map(process).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_answer_is_read() {
        let seen = parse_conditions("570.86.15, 1980, 1980, 2619, 700.00, 34, Enabled, Disabled\n");
        assert_eq!(seen.driver.as_deref(), Some("570.86.15"));
        assert_eq!(seen.max_sm_clock_mhz, Some(1980.0));
        assert_eq!((seen.ecc, seen.mig), (Some(true), Some(false)));
    }

    #[test]
    fn what_the_card_does_not_have_is_unknown() {
        let seen = parse_conditions("535.1, 210, 2100, 405, [N/A], 40, [N/A], [Not Supported]\n");
        assert_eq!(seen.power_limit_w, None);
        assert_eq!((seen.ecc, seen.mig), (None, None));
        assert_eq!(parse_conditions(""), Conditions::default());
    }

    #[test]
    fn neighbours_keep_their_names_whole() {
        let seen = parse_neighbours("123, python, serve, 40321\n9, x, [N/A]\nnonsense\n");
        assert_eq!(seen[0].name, "python, serve");
        assert_eq!(seen[0].memory_mib, Some(40_321));
        assert_eq!(seen[1].memory_mib, None);
        assert_eq!(seen.len(), 2);
    }
}
