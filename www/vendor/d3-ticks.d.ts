/** The build copies d3-array's file beside this declaration. */
/** Round numbers from `start` to `stop`, about `count` of them. */
export default function ticks(start: number, stop: number, count: number): number[];
