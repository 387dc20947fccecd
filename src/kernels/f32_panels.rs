//! Matrix products in 32-bit floats: the reference.
//!
//! A matrix is split into panels of [`PANEL`] outputs, and each panel is stored input by input. The product reads memory
//! sequentially and has one vector lane per output, so it needs no horizontal sums.

/// Number of outputs whose weights are interleaved.
pub const PANEL: usize = 8;

/// Number of panels that one row of activations is multiplied by at a time, spread over the matrix: a single reader
/// reaches little more than half of the memory bandwidth.
pub const READERS: usize = 4;

/// Panels and rows of activations in a tile.
const TILE: (usize, usize) = (2, 2);

/// Multiplies `x` (`[n, inputs]`) by the transposed matrix in `panels` (`[ceil(outputs / PANEL), inputs, PANEL]`) and
/// writes `out` (`[n, outputs]`). A row of the result does not depend on the other rows.
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
    /// All panels in groups of `P`, then the remaining ones; for each group, all rows in groups of `N`.
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

    /// `N` rows of activations times `P` panels. Each lane sums over the inputs in order, for any `N` and `P`.
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
