// What WooCommerce's stores of the cart do in the browser (stores/woocommerce/cart, mini-cart).
import { getConfig, store } from '@wordpress/interactivity';

const { store: name, fetches } = getConfig('test-cart');
const { state, actions } = store(name, {
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
if (fetches) actions.refreshCartItems();
