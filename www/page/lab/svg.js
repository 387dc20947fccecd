/** SVG elements, and figures as files. */

const NAMESPACE = 'http://www.w3.org/2000/svg';

/**
 * A new SVG element.
 * @template {keyof SVGElementTagNameMap} T
 * @param {T} tag
 * @param {{ [name: string]: string | number | null | undefined }} [attributes] null and undefined are left out
 * @param {...(Node | string)} children
 * @returns {SVGElementTagNameMap[T]}
 */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(name, typeof value === 'number' ? String(Math.round(value * 100) / 100) : value);
  }
  element.append(...children);
  return element;
}

/** What decides how an element looks. Style sheets are not part of a file, so these become attributes. */
const LOOKS = [
  'fill', 'fill-opacity', 'stroke', 'stroke-width', 'stroke-dasharray', 'stroke-opacity', 'stroke-linejoin', 'stroke-linecap',
  'opacity', 'font-family', 'font-size', 'font-weight', 'text-anchor', 'dominant-baseline', 'paint-order', 'visibility',
];

/**
 * A drawing as the text of an SVG file that looks the same on its own.
 * @param {SVGSVGElement} drawing in the page
 * @param {string} title
 */
export function standalone(drawing, title) {
  const copy = /** @type {SVGSVGElement} */ (drawing.cloneNode(true));
  const originals = [drawing, ...drawing.querySelectorAll('*')];
  for (const [place, element] of [copy, ...copy.querySelectorAll('*')].entries()) {
    const style = getComputedStyle(/** @type {Element} */ (originals[place]));
    for (const name of LOOKS) {
      const value = style.getPropertyValue(name);
      if (value) element.setAttribute(name, value);
    }
    element.removeAttribute('class');
  }
  const { width, height } = drawing.viewBox.baseVal;
  copy.setAttribute('xmlns', NAMESPACE);
  copy.setAttribute('width', String(width));
  copy.setAttribute('height', String(height));
  const paper = getComputedStyle(document.body).backgroundColor;
  copy.prepend(svg('title', {}, title), svg('rect', { width, height, fill: paper }));
  return new XMLSerializer().serializeToString(copy);
}

/**
 * A standalone SVG as a PNG of twice its size.
 * @param {string} text @returns {Promise<Blob>}
 */
export async function png(text) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = document.createElement('canvas');
  canvas.width = 2 * image.width;
  canvas.height = 2 * image.height;
  canvas.getContext('2d')?.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error('this browser cannot make a PNG of the figure'))), 'image/png');
  });
}
