interface WasmBindgen {
  /** What benches/probe measures, after a read of so many MiB. */
  measure_limits(megabytes: number): {
    stream_gb_s: number;
    by_streams: [streams: number, gb_s: number][];
    products: { precision: string; rows: number; gop_s: number; gb_s: number }[];
  };
}
