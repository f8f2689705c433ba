// A visitor in a browser, who knows the own cart.

import { settle, visit } from '../lib/browser.mjs';
import { expect } from '../browser-cache/watch.mjs';

/** A visitor, and the cart that every page has to show. */
export class Shopper {
  cart = new Map();

  constructor({ page, context }, site, story) {
    Object.assign(this, { page, context, site, story });
  }

  /** Number and total, as a page shows them. */
  get expected() {
    let [count, total] = [0, 0];
    for (const [name, some] of this.cart) {
      const price = 100 * (1 + (Number(name.slice(6)) * 7) % 60);
      [count, total] = [count + some, total + some * price];
    }
    return `${count} in the cart, ${total}`;
  }

  /** Waits until the page shows the cart as it is: a script of the page may have to ask for it first. */
  async check(page = this.page, where = '') {
    await settle(page);
    const shown = await page.locator(this.story.cart).textContent();
    expect(shown === this.expected, `${where || page.url()} shows "${shown}" instead of "${this.expected}"`);
  }

  /** A page, with the right cart on it; how it came, by its Cache-Status. */
  async see(path, page = this.page) {
    const answer = await visit(page, this.site.url + path);
    const said = answer.headers()['cache-status'];
    await this.check(page, `${path} (${said})`);
    return said;
  }

  /** Puts a product into the cart, by the form on its page. */
  async add(name) {
    await this.see(`/product/${name}/`);
    await Promise.all([this.page.waitForNavigation(), this.page.click('form.cart button')]);
    this.cart.set(name, (this.cart.get(name) ?? 0) + 1);
    await this.check(this.page, `after ${name}`);
  }
}
