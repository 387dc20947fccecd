/** The build copies uPlot's files beside this declaration. */
export { default } from 'uplot';
