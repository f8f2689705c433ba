// What WooCommerce's stores of the cart do in the browser (stores/woocommerce/cart, mini-cart).
import { store } from '@wordpress/interactivity';

const { state } = store('woocommerce', {
  actions: {
    *refreshCartItems() {
      const answer = yield fetch('/wp-json/wc/store/v1/cart', { cache: 'no-store' });
      const cart = yield answer.json();
      state.cart = { ...cart, items: Object.values(cart.items) };
    },
  },
});
store('woocommerce/mini-cart', {
  state: {
    get text() {
      return `${state.cart.items_count} in the cart, ${state.cart.totals.total_price}`;
    },
    get isEmpty() {
      return state.cart.items_count === 0;
    },
  },
});
