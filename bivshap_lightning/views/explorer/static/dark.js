// Dark mode inside TensorBoard.

/** TensorBoard says by a class of its own body whether it is dark; the frame follows where it may look. */
export function followDarkMode(root) {
  try {
    const body = window.parent.document.body;
    if (window.parent === window) return;
    const follow = () => root.classList.toggle("dark", body.classList.contains("dark-mode"));
    root.classList.add("light");
    follow();
    new MutationObserver(follow).observe(body, { attributes: true, attributeFilter: ["class"] });
  } catch {
    // A frame of another origin: the system's preference decides.
  }
}
