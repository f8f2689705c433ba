//! Blocks of WooCommerce print the cart as state of WordPress's Interactivity API. When the page has loaded, the browser fetches the cart
//! again, and directives show it. What they show follows from state and context alone, so it does not matter which cart was on the page
//! before. That the browser does fetch it is observed ([`super::fetches`]), not read from the page: how it is made to has changed
//! from version to version. Then the comparison leaves out:
//!
//! - in the state: the cart, where WooCommerce's versions keep it ([`CARTS`]), and what the blocks of the mini-cart make of it;
//! - what directives of WooCommerce's namespaces fill in: the content of an element with `data-wp-text`, the attributes, classes and styles of `data-wp-bind--*`,
//!   `data-wp-class--*` and `data-wp-style--*`, and the elements of a list (`data-wp-each-child`);
//! - the quantity with which a product's button begins (`tempQuantity`), if the page has it set to that of the state;
//! - white space between tags, which is around the elements of a list.
//!
//! Any other state or context is compared: what it says of a visitor is a difference.

use serde_json::Value;

use super::html::{StartTag, Text, Token, end_of};

/// How WooCommerce's namespaces begin.
const NAMESPACE: &str = "woocommerce";

/// The browser fetches the cart into the state of these namespaces: the first since WooCommerce 10.5, the second since 11.
const CARTS: [&str; 2] = ["woocommerce", "woocommerce/cart"];

/// What sets the quantity of a product's button to that of the state.
const SETS_QUANTITY: &[u8] = b"callbacks.syncTempQuantityOnLoad";

/// Elements that have the state: since WordPress 6.7, and before.
const STATES: [&[u8]; 2] = [b"wp-script-module-data-@wordpress/interactivity", b"wp-interactivity-data"];

/// The page without what the browser fills in when it has fetched the cart.
pub fn without_cart(tokens: Vec<Token>) -> Vec<Token> {
    let is_directive = |(name, _): &(Text, Text)| name.starts_with(b"data-wp-");
    let sets_quantity = tokens.iter().any(|token| match token {
        Token::Start(tag) => {
            tag.attributes.iter().any(|each| is_directive(each) && each.1.ends_with(SETS_QUANTITY))
        }
        _ => false,
    });
    let mut out: Vec<Token> = Vec::with_capacity(tokens.len());
    let (mut at, mut regions) = (0, Regions::default());
    while let Some(token) = tokens.get(at) {
        let Token::Start(tag) = token else {
            out.extend(Some(token.clone()).filter(|token| !is_space(token)));
            at += 1;
            continue;
        };
        let is_shop = regions.enter(&tokens, at, tag);
        if tag.attribute("id").is_some_and(|id| *tag.name == *b"script" && STATES.contains(&id)) {
            out.push(token.clone());
            at += 1;
            if let Some(Token::Text(json)) = tokens.get(at) {
                out.push(Token::Text(state_without_cart(json).unwrap_or_else(|| json.clone())));
                at += 1;
            }
        } else if !tag.attributes.iter().any(is_directive) {
            out.push(token.clone());
            at += 1;
        } else if let Some(end) =
            end_of(&tokens, at).filter(|_| is_shop && tag.attribute("data-wp-each-child").is_some())
        {
            at = end;
        } else {
            out.push(Token::Start(without_filled(tag, is_shop, sets_quantity)));
            let is_text = tag.attribute("data-wp-text").is_some_and(|value| is_of_shop(value, is_shop));
            at = end_of(&tokens, at).filter(|_| is_text).unwrap_or(at + 1);
        }
    }
    out
}

/// Text between tags that is only white space.
fn is_space(token: &Token) -> bool {
    matches!(token, Token::Text(text) if text.trim_ascii().is_empty())
}

/// The interactive regions around a tag: where each ends, and whether it is of WooCommerce's namespaces.
#[derive(Default)]
struct Regions(Vec<(usize, bool)>);

impl Regions {
    /// Whether a tag, which is the token `at`, is in a region of WooCommerce's namespaces: `data-wp-interactive="woocommerce/mini-cart"`,
    /// `{"namespace":"woocommerce/mini-cart"}`.
    fn enter(&mut self, tokens: &[Token], at: usize, tag: &StartTag) -> bool {
        while self.0.last().is_some_and(|(end, _)| *end <= at) {
            self.0.pop();
        }
        if let Some(namespace) = tag.attribute("data-wp-interactive") {
            let is_separator =
                |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'{' | b'"' | b':' | b';');
            let is_shop = namespace.split(is_separator).any(|word| word.starts_with(NAMESPACE.as_bytes()));
            // Where it ends is unclear: nothing from here on is known to be of the shop.
            let end = end_of(tokens, at);
            self.0.push((end.unwrap_or(tokens.len()), is_shop && end.is_some()));
        }
        self.0.last().is_some_and(|(_, is_shop)| *is_shop)
    }
}

/// Whether a directive's value, `state.text` or `!woocommerce::state.text`, is of WooCommerce's namespaces, in such a region or not.
fn is_of_shop(value: &[u8], in_region: bool) -> bool {
    let value = value.strip_prefix(b"!").unwrap_or(value);
    match memchr::memmem::find(value, b"::") {
        Some(_) => value.starts_with(NAMESPACE.as_bytes()),
        None => in_region && !value.is_empty(),
    }
}

/// A tag without what its directives fill in.
fn without_filled(tag: &StartTag, is_shop: bool, sets_quantity: bool) -> StartTag {
    let filled = |prefix: &[u8]| -> Vec<&[u8]> {
        let own = tag.attributes.iter().filter(|(_, value)| is_of_shop(value, is_shop));
        own.filter_map(|(name, _)| name.strip_prefix(prefix)).collect()
    };
    let (bound, classes) = (filled(b"data-wp-bind--"), filled(b"data-wp-class--"));
    let has_styles = !filled(b"data-wp-style--").is_empty();
    let mut attributes = Vec::with_capacity(tag.attributes.len());
    for (name, value) in &tag.attributes {
        if bound.iter().any(|known| **known == **name) || (has_styles && **name == *b"style") {
            continue;
        }
        let value = match &**name {
            b"class" if !classes.is_empty() => without_classes(value, &classes),
            b"data-wp-context" if sets_quantity && is_shop => without_quantity(value),
            _ => value.to_vec(),
        };
        // With the last class the attribute goes.
        if **name == *b"class" && !classes.is_empty() && value.is_empty() {
            continue;
        }
        attributes.push((name.clone(), value.into()));
    }
    StartTag { name: tag.name.clone(), attributes, ..*tag }
}

/// Classes without those of directives.
fn without_classes(value: &[u8], classes: &[&[u8]]) -> Vec<u8> {
    let words =
        value.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty() && !classes.contains(word));
    words.collect::<Vec<_>>().join(&b' ')
}

/// A context without its quantity: `"tempQuantity":1`.
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
fn state_without_cart(json: &[u8]) -> Option<Text> {
    let mut data: Value = serde_json::from_slice(json).ok()?;
    let state = data.get_mut("state")?.as_object_mut()?;
    for (name, own) in state.iter_mut() {
        if CARTS.contains(&&**name) {
            own.as_object_mut()?.remove("cart");
        } else if name.starts_with("woocommerce/mini-cart") {
            *own = Value::Null;
        }
    }
    serde_json::to_vec(&data).ok().map(Vec::into_boxed_slice)
}

#[cfg(test)]
mod tests {
    use super::super::compare::{Sameness, compare};

    /// How the mini-cart of a version begins: what makes the browser fetch the cart, if that is on the page.
    const VERSIONS: [(&str, &str); 3] = [
        ("10.5", "data-wp-init--refresh=\"woocommerce::actions.refreshCartItems\""),
        (
            "10.9",
            "data-wp-init=\"callbacks.setupJQueryEventBridge\" data-wp-on-document--wc-blocks_added_to_cart=\"woocommerce::actions.refreshCartItems\"",
        ),
        (
            "11",
            "data-wp-init=\"callbacks.init\" data-wp-on-document--wc-blocks_added_to_cart=\"woocommerce/cart::actions.refresh\"",
        ),
    ];

    /// A page with a mini-cart in the shape of a version's.
    fn page_of((version, start): (&str, &str), count: u32, rows: &str, state: &str) -> String {
        let hidden = if count == 0 { "hidden " } else { "" };
        let text = if count == 0 { "Add to cart".to_owned() } else { format!("{count} in cart") };
        // In version 11 the cart has a namespace of its own, and the drawer is at the end of the page.
        let state = if version == "11" {
            state.replace("{\"woocommerce\":", "{\"woocommerce/cart\":")
        } else {
            state.to_owned()
        };
        let table = format!(
            "<table data-wp-interactive=\"woocommerce/mini-cart-products-table-block\"><template data-wp-each=\"state.cart.items\"><tr></tr></template>\n{rows}</table>"
        );
        let (drawer, overlay) = if version == "11" { ("", &*table) } else { (&*table, "") };
        format!(
            "<body><div data-wp-interactive=\"woocommerce/mini-cart\" {start}>\n\
             <button aria-label=\"Items: {count}\" data-wp-bind--aria-label=\"state.buttonAriaLabel\" class=\"b\"><span {hidden}\
             data-wp-bind--hidden=\"!state.badgeIsVisible\" data-wp-text=\"state.total\">{count}</span></button></div>\n{drawer}\n\
             <p data-wp-interactive='{{\"namespace\":\"woocommerce/product-button\"}}' data-wp-run=\"callbacks.syncTempQuantityOnLoad\" data-wp-context='{{\"id\":7,\"tempQuantity\":{count}}}'>\
             <b data-wp-text=\"state.addToCartText\">{text}</b></p>\n\
             <div data-wp-interactive=\"woocommerce/mini-cart\" data-wp-router-region='{{\"id\":\"x\"}}'>{overlay}</div>\
             <script id=\"wp-script-module-data-@wordpress/interactivity\" type=\"application/json\">{state}</script></body>"
        )
    }

    fn page(count: u32, rows: &str, state: &str) -> String {
        page_of(VERSIONS[0], count, rows, state)
    }

    fn state(count: u32, more: &str) -> String {
        format!(
            "{{\"config\":{{}},\"state\":{{\"woocommerce\":{{\"cart\":{{\"items\":[{count}]}},\"nonce\":\"0123456789\"}},\
             \"woocommerce/mini-cart\":{{\"total\":{count}}}{more}}}}}"
        )
    }

    fn same(one: &str, other: &str) -> bool {
        compare(one.as_bytes(), other.as_bytes(), &[], 0) != Sameness::Differs
    }

    #[test]
    fn the_cart_may_differ_if_the_browser_fetches_it() {
        let rows = "<tr data-wp-each-child=\"woocommerce::state.cart.items\"><td>a thing</td></tr>\n<tr data-wp-each-child><td>b</td></tr>";
        for version in VERSIONS {
            let page = |count: u32, rows: &str| page_of(version, count, rows, &state(count, ""));
            let found = compare(page(0, "").as_bytes(), page(2, rows).as_bytes(), &[], 0);
            assert_eq!(found, Sameness::IfFetched, "{}", version.0);
            assert_eq!(compare(page(2, rows).as_bytes(), page(2, rows).as_bytes(), &[], 0), Sameness::Same);
            let own = page(2, rows)
                .replace("<td>a thing</td></tr>", "<td>a thing</td></tr></table><p>For Anna</p><table>");
            assert_eq!(
                compare(page(0, "").as_bytes(), own.as_bytes(), &[], 0),
                Sameness::Differs,
                "{}",
                version.0
            );
        }
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
            // Wherever it is torn, this is a comment and a tag behind it.
            assert!(!same(torn, &format!("{torn}'\"></script><i>x</i>")), "{torn}");
        }
    }
}
