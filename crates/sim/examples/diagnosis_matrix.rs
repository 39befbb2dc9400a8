//! Writes the confusion matrix of the diagnosis into its page:
//!
//! ```text
//! cargo run --release -p skyhaul-sim --example diagnosis_matrix -- docs/reference/diagnosis.md
//! ```
//!
//! Without a file it is printed. Thresholds were chosen with seeds 0 to 49; it plays 1000 to 1049.

use skyhaul_sim::traces::matrix::{Matrix, Pairs};

const MARK: &str = "<!-- matrix -->";

fn main() -> std::io::Result<()> {
    let one = Matrix::play(1000..1050, 500).table();
    let two = Pairs::play(1000..1020).table();
    let table = format!("{one}\n### Two causes at once\n\n{two}");
    let Some(path) = std::env::args().nth(1) else {
        print!("{table}");
        return Ok(());
    };
    let page = std::fs::read_to_string(&path)?;
    let front = page.split(MARK).next().unwrap_or_default();
    std::fs::write(&path, format!("{front}{MARK}\n\n{table}"))
}
