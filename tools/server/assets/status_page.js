'use strict';
// A form's text goes to its model, and the answer is shown as text.
for (const form of document.forms) form.addEventListener('submit', async (event) => {
  event.preventDefault();
  const shown = form.querySelector('pre'), begun = performance.now();
  shown.hidden = false;
  try {
    const got = await fetch(form.dataset.path, {method: 'POST', body: form.elements.body.value});
    const text = await got.text();
    shown.textContent = got.status + ', ' + (performance.now() - begun).toFixed(1) + ' ms\n' + text;
  } catch (failure) {
    shown.textContent = String(failure);
  }
});

// What is marked as live comes anew from the server, as it wrote it; rates are of the time between two looks.
const totals = (page) => new Map(Array.from(page.querySelectorAll('[data-total]'), (cell) => [cell.dataset.total, Number(cell.textContent)]));
let before = {at: performance.now(), of: totals(document)};
const look = async () => {
  if (document.hidden) return;
  try {
    const text = await (await fetch('/')).text(); // its styles have another nonce, and would be complained of
    const page = new DOMParser().parseFromString(text.slice(text.indexOf('<body>')), 'text/html');
    const now = {at: performance.now(), of: totals(page)};
    for (const cell of page.querySelectorAll('[data-rate]')) {
      const n = now.of.get(cell.dataset.rate) - (before.of.get(cell.dataset.rate) || 0);
      cell.textContent = Math.max(0, 1000 * n / (now.at - before.at)).toFixed(1);
    }
    for (const old of document.querySelectorAll('[data-live]')) {
      const fresh = page.querySelector(`[data-live="${old.dataset.live}"]`);
      if (fresh) old.replaceWith(fresh);
    }
    before = now;
  } catch (failure) {
    const state = document.querySelector('[data-live=""]');
    state.className = 'bad';
    state.textContent = 'The server does not answer: ' + failure;
  }
};
setInterval(look, 2000);
