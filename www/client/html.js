/** Elements that a page may begin with, as https://mimesniff.spec.whatwg.org/ lists them. */
const BEGINNING = /^[\s\ufeff\xef\xbb\xbf]*<(!--|(!doctype html|html|head|script|iframe|h1|div|font|table|a|style|title|body|br|b|p)[\s>])/i;

/**
 * Whether a file is an HTML page. Servers send one as a success where a login is needed or a file is missing.
 * @param {string} text how the file begins, decoded as UTF-8 or Latin-1
 */
export const isHtml = (text) => BEGINNING.test(text);
