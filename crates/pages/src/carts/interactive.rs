//! Blocks of WooCommerce print the cart as state of WordPress's Interactivity API. When the page has loaded, the browser fetches the cart
//! again (`data-wp-init="actions.refreshCartItems"`), and directives show it. What they show follows from state and context alone, so it
//! does not matter which cart was on the page before. If a page has that directive, the comparison leaves out:
//!
//! - in the state: the cart, and what the blocks of the mini-cart make of it (`BlocksSharedState::load_cart_state()`, `MiniCart`);
//! - what directives of WooCommerce's namespaces fill in: the content of an element with `data-wp-text`, the attributes, classes and styles of `data-wp-bind--*`,
//!   `data-wp-class--*` and `data-wp-style--*`, and the elements of a list (`data-wp-each-child`);
//! - the quantity with which a product's button begins (`tempQuantity`), if the page has it set to that of the state;
//! - white space between tags, which is around the elements of a list.
//!
//! Any other state or context is compared: what it says of a visitor is a difference.

use serde_json::Value;

use super::compare::{HtmlTag, VOID, each_tag, end_of, end_of_raw};

/// What fetches the cart.
const REFRESHES: &str = "actions.refreshCartItems";

/// How WooCommerce's namespaces begin.
const NAMESPACE: &str = "woocommerce";

/// What sets the quantity of a product's button to that of the state.
const SETS_QUANTITY: &[u8] = b"callbacks.syncTempQuantityOnLoad";

/// Elements that have the state: since WordPress 6.7, and before.
const STATES: [&[u8]; 2] = [b"wp-script-module-data-@wordpress/interactivity", b"wp-interactivity-data"];

/// The page without what the browser fills in; `None`: it does not fetch the cart.
pub fn blanked(page: &[u8]) -> Option<Vec<u8>> {
    if memchr::memmem::find(page, REFRESHES.as_bytes()).is_none() || !fetches_the_cart(page) {
        return None;
    }
    let sets_quantity = memchr::memmem::find(page, SETS_QUANTITY).is_some();
    let mut out = Vec::with_capacity(page.len());
    let (mut from, mut regions) = (0, Regions::default());
    each_tag(page, 0, |start, tag| {
        if tag.closes {
            return Some(tag.end);
        }
        let is_shop = regions.enter(page, start, tag);
        if tag.is(&["script"]) {
            if !tag.attribute("id").is_some_and(|id| STATES.contains(&id)) {
                return Some(tag.end);
            }
            let end = end_of_raw(page, tag);
            let Some(state) = without_cart(&page[tag.end..end]) else { return Some(tag.end) };
            out.extend_from_slice(&page[from..tag.end]);
            out.extend_from_slice(&state);
            from = end;
            return Some(from);
        }
        if !tag.attributes().any(|(name, _)| name.starts_with(b"data-wp-")) {
            return Some(tag.end);
        }
        out.extend_from_slice(&page[from..start]);
        let is_empty = tag.is(&VOID);
        if is_shop && tag.attributes().any(|(name, _)| name == b"data-wp-each-child") {
            from = if is_empty { tag.end } else { end_of(page, tag) };
            return Some(from);
        }
        write_tag(tag, is_shop, sets_quantity, &mut out);
        let is_text =
            tag.attribute("data-wp-text").is_some_and(|value| is_of_shop(value, is_shop)) && !is_empty;
        from = if is_text { end_of(page, tag) } else { tag.end };
        Some(from)
    });
    out.extend_from_slice(&page[from..]);
    Some(without_space(&out))
}

/// Whether a directive fetches the cart when the page is there.
fn fetches_the_cart(page: &[u8]) -> bool {
    let mut found = false;
    each_tag(page, 0, |_, tag| {
        found = found
            || tag.attributes().any(|(name, value)| {
                let is_init = name == b"data-wp-init" || name.starts_with(b"data-wp-init--");
                is_init && value.is_some_and(|value| value.ends_with(REFRESHES.as_bytes()))
            });
        (!found).then_some(tag.end)
    });
    found
}

/// The interactive regions around a tag: where each ends, and whether it is of WooCommerce's namespaces.
#[derive(Default)]
struct Regions(Vec<(usize, bool)>);

impl Regions {
    /// Whether a tag, which begins at `start`, is in a region of WooCommerce's namespaces: `data-wp-interactive="woocommerce/mini-cart"`,
    /// `{"namespace":"woocommerce/mini-cart"}`.
    fn enter(&mut self, page: &[u8], start: usize, tag: &HtmlTag<'_>) -> bool {
        while self.0.last().is_some_and(|(end, _)| *end <= start) {
            self.0.pop();
        }
        if let Some(namespace) = tag.attribute("data-wp-interactive") {
            let is_separator =
                |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'{' | b'"' | b':' | b';');
            let is_shop = namespace.split(is_separator).any(|word| word.starts_with(NAMESPACE.as_bytes()));
            self.0.push((end_of(page, tag), is_shop));
        }
        self.0.last().is_some_and(|(_, is_shop)| *is_shop)
    }
}

/// Whether a directive's value, `state.text` or `!woocommerce::state.text`, is of WooCommerce's namespaces, in such a region or not.
fn is_of_shop(value: &[u8], in_region: bool) -> bool {
    let value = value.strip_prefix(b"!").unwrap_or(value);
    match memchr::memmem::find(value, b"::") {
        Some(_) => value.starts_with(NAMESPACE.as_bytes()),
        None => in_region,
    }
}

/// A tag without what its directives fill in.
fn write_tag(tag: &HtmlTag<'_>, is_shop: bool, sets_quantity: bool, out: &mut Vec<u8>) {
    let filled = |prefix: &[u8]| -> Vec<&[u8]> {
        let own = tag.attributes().filter(|(_, value)| value.is_some_and(|value| is_of_shop(value, is_shop)));
        own.filter_map(|(name, _)| name.strip_prefix(prefix)).collect()
    };
    let (bound, classes) = (filled(b"data-wp-bind--"), filled(b"data-wp-class--"));
    let has_styles = !filled(b"data-wp-style--").is_empty();
    out.push(b'<');
    out.extend_from_slice(tag.name);
    for (name, value) in tag.attributes() {
        let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
        if bound.iter().any(|known| is(known)) || (has_styles && is(b"style")) {
            continue;
        }
        let value = value.map(|value| match name {
            b"class" if !classes.is_empty() => without_classes(value, &classes),
            b"data-wp-context" if sets_quantity && is_shop => without_quantity(value),
            _ => value.to_vec(),
        });
        // With the last class the attribute goes.
        if is(b"class") && !classes.is_empty() && value.as_ref().is_some_and(Vec::is_empty) {
            continue;
        }
        out.push(b' ');
        out.extend_from_slice(name);
        if let Some(value) = value {
            out.extend_from_slice(b"=\"");
            out.extend_from_slice(&value);
            out.push(b'"');
        }
    }
    out.push(b'>');
}

/// Classes without those of directives.
fn without_classes(value: &[u8], classes: &[&[u8]]) -> Vec<u8> {
    let words =
        value.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty() && !classes.contains(word));
    words.collect::<Vec<_>>().join(&b' ')
}

/// A context without its quantity: `"tempQuantity":1`, also with `&quot;`.
fn without_quantity(context: &[u8]) -> Vec<u8> {
    const NAME: &[u8] = b"tempQuantity";
    let mut out = context.to_vec();
    if let Some(at) = memchr::memmem::find(&out, NAME) {
        let start = at + NAME.len();
        let is_between = |byte: &u8| !byte.is_ascii_digit() && !matches!(byte, b',' | b'}');
        let digits = start + out[start..].iter().take_while(|byte| is_between(byte)).count();
        let end = digits + out[digits..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        out.drain(digits..end);
    }
    out
}

/// The state without the cart; `None`: it is none.
fn without_cart(json: &[u8]) -> Option<Vec<u8>> {
    let mut data: Value = serde_json::from_slice(json).ok()?;
    let state = data.get_mut("state")?.as_object_mut()?;
    for (name, own) in state.iter_mut() {
        if name == "woocommerce" {
            own.as_object_mut()?.remove("cart");
        } else if name.starts_with("woocommerce/mini-cart") {
            *own = Value::Null;
        }
    }
    serde_json::to_vec(&data).ok()
}

/// Without white space between tags.
fn without_space(page: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::with_capacity(page.len());
    for part in page.split_inclusive(|byte| *byte == b'>') {
        let text = part.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(part.len());
        let is_between = out.last() == Some(&b'>') && part.get(text) == Some(&b'<');
        out.extend_from_slice(if is_between { &part[text..] } else { part });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::compare::is_same;

    /// A page with a mini-cart, as WooCommerce 10.5 prints it.
    fn page(count: u32, rows: &str, state: &str) -> String {
        let hidden = if count == 0 { "hidden " } else { "" };
        let text = if count == 0 { "Add to cart".to_owned() } else { format!("{count} in cart") };
        format!(
            "<body><div data-wp-interactive=\"woocommerce/mini-cart\" data-wp-init--refresh=\"woocommerce::actions.refreshCartItems\">\n\
             <button aria-label=\"Items: {count}\" data-wp-bind--aria-label=\"state.buttonAriaLabel\" class=\"b\"><span {hidden}\
             data-wp-bind--hidden=\"!state.badgeIsVisible\" data-wp-text=\"state.total\">{count}</span></button></div>\n\
             <table data-wp-interactive=\"woocommerce/mini-cart-products-table-block\"><template data-wp-each=\"state.cart.items\"><tr></tr></template>\n{rows}</table>\n\
             <p data-wp-interactive='{{\"namespace\":\"woocommerce/product-button\"}}' data-wp-run=\"callbacks.syncTempQuantityOnLoad\" data-wp-context='{{\"id\":7,\"tempQuantity\":{count}}}'>\
             <b data-wp-text=\"state.addToCartText\">{text}</b></p>\n\
             <script id=\"wp-script-module-data-@wordpress/interactivity\" type=\"application/json\">{state}</script></body>"
        )
    }

    fn state(count: u32, more: &str) -> String {
        format!(
            "{{\"config\":{{}},\"state\":{{\"woocommerce\":{{\"cart\":{{\"items\":[{count}]}},\"nonce\":\"0123456789\"}},\
             \"woocommerce/mini-cart\":{{\"total\":{count}}}{more}}}}}"
        )
    }

    fn same(one: &str, other: &str) -> bool {
        is_same(one.as_bytes(), other.as_bytes(), &[], 0)
    }

    #[test]
    fn the_cart_may_differ() {
        let public = page(0, "", &state(0, ""));
        let rows = "<tr data-wp-each-child=\"woocommerce::state.cart.items\"><td>a thing</td></tr>\n<tr data-wp-each-child><td>b</td></tr>";
        assert!(same(&public, &page(2, rows, &state(2, ""))));
        let plain = public.replace("actions.refreshCartItems", "actions.other");
        assert!(
            !same(&plain, &page(2, rows, &state(2, "")).replace("actions.refreshCartItems", "actions.other")),
            "nothing fetches it"
        );
        let in_text = |page: String| {
            format!("{}<!-- actions.refreshCartItems -->", page.replace("actions.refreshCartItems", "x"))
        };
        assert!(!same(&in_text(public), &in_text(page(2, "", &state(2, "")))), "no directive");
    }

    #[test]
    fn nothing_else_may_differ() {
        let public = page(0, "", &state(0, ""));
        for (what, other) in [
            ("a text beside directives", page(1, "", &state(1, "")).replace("</body>", "<i>Anna</i></body>")),
            ("another state", page(1, "", &state(1, ",\"shop\":{\"name\":\"Anna\"}"))),
            (
                "another state of WooCommerce",
                page(1, "", &state(1, "").replace("\"nonce\"", "\"name\":\"Anna\",\"nonce\"")),
            ),
            ("another context", page(1, "", &state(1, "")).replace("\"id\":7", "\"id\":8")),
            ("a row without a directive", page(1, "<tr><td>a thing</td></tr>", &state(1, ""))),
            (
                "an attribute that no directive fills in",
                page(1, "", &state(1, "")).replace("class=\"b\"", "class=\"b full\""),
            ),
            ("a state that is none", page(1, "", "{")),
        ] {
            assert!(!same(&public, &other), "{what}");
        }
        let no_sync = |page: String| page.replace("callbacks.syncTempQuantityOnLoad", "callbacks.other");
        assert!(!same(&no_sync(public), &no_sync(page(1, "", &state(1, "")))), "nothing sets the quantity");
    }

    #[test]
    fn classes_and_styles_of_directives_may_differ() {
        let page = |class: &str, style: &str| {
            format!(
                "<p data-wp-init=\"actions.refreshCartItems\"></p><b data-wp-interactive=\"woocommerce\" class=\"{class}\" style=\"{style}\" \
                 data-wp-class--is-full=\"state.full\" data-wp-style--color=\"state.color\">x</b>"
            )
        };
        assert!(same(&page("a", ""), &page("a is-full", "color:red")));
        assert!(!same(&page("a", ""), &page("a b", "")));
        assert!(same(&page("is-full", ""), &page("", "").replace("class=\"\" ", "")));
        let without = |page: String| page.replace(" data-wp-style--color=\"state.color\"", "");
        assert!(!same(&without(page("a", "")), &without(page("a", "color:red"))));
    }

    #[test]
    fn directives_of_others_are_compared() {
        let page = |around: &str, text: &str, directive: &str| {
            format!(
                "<p data-wp-init=\"actions.refreshCartItems\"></p><div data-wp-interactive=\"{around}\"><i>a</i>\
                 <b data-wp-text=\"{directive}\">{text}</b></div><b data-wp-text=\"state.text\">c</b>"
            )
        };
        for (around, directive, expected) in [
            ("woocommerce/mini-cart", "state.text", true),
            ("club", "state.text", false),
            ("club", "woocommerce::state.text", true),
            ("woocommerce/mini-cart", "club::state.text", false),
        ] {
            let (one, other) = (page(around, "1", directive), page(around, "2", directive));
            assert_eq!(same(&one, &other), expected, "{around} {directive}");
        }
        let behind = |text: &str| page("woocommerce", "1", "state.text").replace(">c<", &format!(">{text}<"));
        assert!(!same(&behind("1"), &behind("2")), "behind the region");
    }

    #[test]
    fn torn_pages_are_compared_as_they_are() {
        let whole = page(1, "<tr data-wp-each-child=\"x\">", &state(1, ""));
        for end in 0..whole.len() {
            let torn = &whole[..end];
            assert!(same(torn, torn));
            assert!(
                !same(torn, &format!("{torn}<i>x</i>"))
                    || torn.contains("data-wp-each-child")
                    || torn.contains("data-wp-text"),
                "{torn}"
            );
        }
    }
}
