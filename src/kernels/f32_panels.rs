//! The product in 32-bit floats: the reference.
//!
//! A matrix is cut into panels of [`PANEL`] outputs, each panel stored input by input. The product passes through memory
//! in one direction, has one vector lane per output, and so needs no sum across lanes.

/// Outputs whose weights lie side by side.
pub const PANEL: usize = 8;

/// Panels that one row of activations is multiplied with at a time, from as many places of the matrix: one reader alone
/// gets little more than half of the memory's bandwidth.
pub const READERS: usize = 4;

/// Panels, and rows of activations, that share one reading of each other.
const TILE: (usize, usize) = (2, 2);

/// `x` (`[n, inputs]`) times the transposed matrix in `panels` (`[outputs / PANEL, inputs, PANEL]`, the first rounded up),
/// into `out` (`[n, outputs]`). A row of the result does not depend on the other rows.
pub fn matmul_t(panels: &[f32], x: &[f32], inputs: usize, out: &mut [f32], outputs: usize) {
    let matrix = Panels { numbers: panels.as_chunks().0, inputs, outputs };
    if x.len() == inputs {
        matrix.all::<READERS, 1>(x, out);
    } else {
        matrix.all::<{ TILE.0 }, { TILE.1 }>(x, out);
    }
}

#[derive(Clone, Copy)]
struct Panels<'a> {
    numbers: &'a [[f32; PANEL]],
    inputs: usize,
    outputs: usize,
}

impl Panels<'_> {
    /// All panels, `P` at a time, and then those that are left; for each, all rows, `N` at a time.
    fn all<const P: usize, const N: usize>(self, x: &[f32], out: &mut [f32]) {
        let panels = self.outputs.div_ceil(PANEL);
        let apart = panels / P;
        for first in 0..apart {
            self.rows::<P, N>(core::array::from_fn(|reader| first + reader * apart), x, out);
        }
        for panel in apart * P..panels {
            self.rows::<1, N>([panel], x, out);
        }
    }

    fn rows<const P: usize, const N: usize>(self, panels: [usize; P], x: &[f32], out: &mut [f32]) {
        let tiles = x.chunks_exact(N * self.inputs);
        let rest = tiles.remainder();
        let whole = (x.len() - rest.len()) / self.inputs;
        for (tile, xs) in tiles.enumerate() {
            self.tile::<P, N>(panels, xs, &mut out[tile * N * self.outputs..]);
        }
        for (row, xs) in rest.chunks_exact(self.inputs).enumerate() {
            self.tile::<P, 1>(panels, xs, &mut out[(whole + row) * self.outputs..]);
        }
    }

    /// `N` rows of activations times `P` panels; each lane sums over the inputs in their order, whatever `N` and `P` are.
    #[inline(always)]
    fn tile<const P: usize, const N: usize>(self, panels: [usize; P], xs: &[f32], out: &mut [f32]) {
        let weights = panels.map(|panel| &self.numbers[panel * self.inputs..][..self.inputs]);
        let xs: [&[f32]; N] = core::array::from_fn(|row| &xs[row * self.inputs..][..self.inputs]);
        let mut sums = [[[0.0; PANEL]; P]; N];
        for input in 0..self.inputs {
            for (sums, x) in sums.iter_mut().zip(xs) {
                for (sums, weights) in sums.iter_mut().zip(weights) {
                    for (sum, weight) in sums.iter_mut().zip(&weights[input]) {
                        *sum += x[input] * weight;
                    }
                }
            }
        }
        for (sums, out) in sums.iter().zip(out.chunks_mut(self.outputs)) {
            for (sums, panel) in sums.iter().zip(panels) {
                let used = PANEL.min(self.outputs - panel * PANEL);
                out[panel * PANEL..][..used].copy_from_slice(&sums[..used]);
            }
        }
    }
}
