// el makes an element: properties, then children, which may be texts. What the
// server says gets into the page as text only.
export function el(tag, props = {}, ...children) {
  const { data, attrs, ...rest } = props;
  const made = Object.assign(document.createElement(tag), rest);
  Object.assign(made.dataset, data);
  for (const [name, value] of Object.entries(attrs ?? {})) made.setAttribute(name, value);
  made.append(...children);
  return made;
}
