use super::*;

/// The function around each `§`, which is taken out of the text; `-` for none.
fn around(path: &str, marked: &str) -> Vec<String> {
    let text = marked.replace('§', "");
    let map = read_functions(path, &text, &mut ScopeBudget::default()).expect("the source is read");
    let mut places = Places::new(marked);
    let mut marks_in_line = (0, 0);
    let marks = marked.match_indices('§').map(|(at, _)| {
        let (line, column) = places.find_place(at);
        marks_in_line = if marks_in_line.0 == line { (line, marks_in_line.1 + 1) } else { (line, 0) };
        map.find_around(line - 1, column - marks_in_line.1).unwrap_or("-").to_owned()
    });
    marks.collect()
}

#[track_caller]
fn assert_around(marked: &str, expected: &[&str]) {
    assert_eq!(around("cart.tsx", marked), expected, "{marked}");
}

#[test]
fn every_form_of_a_function_has_its_name() {
    assert_around("§function buy(o) { return §o.price }\n§", &["buy", "buy", "-"]);
    assert_around("async function* load() { §} const a = §1", &["load", "-"]);
    assert_around(
        "const pay = function () { § }, total = (a) => §a.b, sum = a => §a;§",
        &["pay", "total", "sum", "-"],
    );
    assert_around("exports.pay = async () => { § }; this.total = x => §x", &["pay", "total"]);
    assert_around("Cart.prototype.total = function () { § }", &["Cart.total"]);
    assert_around(
        "const o = { pay() { § }, get total() { § }, 'a b': () => §1, c: function () { § }, [d.e]() { § } }",
        &["pay", "total", "a b", "c", "[d.e]"],
    );
    assert_around("export default function () { § }", &["default"]);
    assert_around("export default async (a) => { § }", &["default"]);
    assert_around("const f = function inner() { § }", &["inner"]);
    assert_around("function f({ onPress = () => §1 } = {}) { § }", &["onPress", "f"]);
}

#[test]
fn members_have_the_name_of_their_class() {
    let class = "class Cart extends Base {\n  static rate = read(§);\n  #items = []\n  handle = (e) => { § }\n  constructor() { § }\n  \
                 static of() { § }\n  async *each() { § }\n  get total() { § }\n  #secret() { § }\n  static { § }\n}§";
    let expected = [
        "Cart",
        "Cart.handle",
        "new Cart",
        "Cart.of",
        "Cart.each",
        "Cart.total",
        "Cart.#secret",
        "Cart",
        "-",
    ];
    assert_around(class, &expected);
    assert_around("const Cart = class { pay() { § } }", &["Cart.pay"]);
    assert_around(
        "@Component({ a: () => §1 })\nclass Cart { @Input() @log pay() { § } }",
        &["a", "Cart.pay"],
    );
}

#[test]
fn a_function_without_a_name_is_named_by_the_one_around_it() {
    assert_around("function pay(c) { c.map(i => i.map(j => §j)) }", &["pay.<anonymous>"]);
    assert_around("items.forEach(function (i) { § })", &["-"]);
    assert_around("const x = function () { return §1 }()", &["-"]);
    assert_around("(function () { function pay() { § } § })()", &["pay", "-"]);
    assert_around(
        "function f() { return a ? x => §1 : (y) => §2 }§",
        &["f.<anonymous>", "f.<anonymous>", "-"],
    );
}

#[test]
fn statements_without_semicolons_end_an_arrow_function() {
    assert_around("const f = a => a.b\n§f(1)\nconst g = a =>\n  a\n    .map(§b)\n§g()", &["-", "g", "-"]);
    assert_around("class A {\n  a = 1\n  b() { § }\n  c = () => {}\n  d() { § }\n}", &["A.b", "A.d"]);
}

#[test]
fn types_are_no_functions() {
    assert_around(
        "const f: (a: number) => void = (a: number): Promise<Map<string, () => void>> => { § }",
        &["f"],
    );
    assert_around(
        "type F = (a: string) => void\ninterface G { h(): void }\nfunction k<T extends { a: () => T }>(this: T, cb: () => void): cb is T { § }",
        &["k"],
    );
    assert_around(
        "class A<T> { cb?: (a: T) => void; private b!: () => T\n  pay<U>(u: U): { a: U } { § }\n  over(): void;\n  over(a?: T): void { § } }",
        &["A.pay", "A.over"],
    );
    assert_around(
        "const [a, set] = useState<(() => void) | null>(null); const g = async <T,>(x: T) => §x as () => T",
        &["g"],
    );
    assert_around(
        "declare module 'm' { export function f(): void }\nenum E { A = 1 }\nconst x = y satisfies Z\nfunction p() { § }",
        &["p"],
    );
    assert_eq!(around("a.ts", "const f = <T>(x: T): T => §x;\nconst y = <any>z, g = () => §1"), ["f", "g"]);
}

#[test]
fn elements_regular_expressions_and_templates_do_not_confuse() {
    let element = "function View() { return <Box<Item> a=\"}\" onPress={() => §go()}>Don't {items.map(i => <b key={i}>{§i}</b>)} <></> }\
                   </Box> }"
        .replace("<></> }", "<></>");
    assert_around(&element, &["onPress", "View.<anonymous>"]);
    assert_around(
        "function f() { return /[/'\"}]\\//.test(`}${g(() => `{${§a}`)}`) }§",
        &["f.<anonymous>", "-"],
    );
    assert_around("function f() { if (a) /}/.test(b); return a / b / c } // }\n/* } */ §", &["-"]);
    assert_around("const a = 1 << 2, b = a < 3; function f() { § }", &["f"]);
    assert_around(
        "switch (a) { case b ? c : d: x => §1; default: { § } } l: for (;;) { § }",
        &["-", "-", "-"],
    );
}

#[test]
fn places_count_lines_and_columns_as_source_maps_do() {
    assert_around("/* 😀é */ function f() { '😀'; § }\r\n\r§ \u{2028}const g = () => §1", &["f", "-", "g"]);
}

#[test]
fn other_languages_and_confusing_texts_are_given_up() {
    let read = |path: &str, text: &str| read_functions(path, text, &mut ScopeBudget::default()).is_some();
    let pay = "function pay() {}";
    for path in ["a.js", "webpack://app/./src/a.tsx?1f3b", "src\\a.mjs", "webpack/bootstrap", ""] {
        assert!(read(path, pay), "{path}");
    }
    for path in ["a.kt", "a.css", "a.vue", "a.dart", "a.json"] {
        assert!(!read(path, pay), "{path}");
    }
    for text in ["function f() {", "f(]", "'", "/*", "`", "`${", "a = /b", "<a></a", "}", ")", "\u{0}"] {
        assert!(!read("a.js", text), "{text}");
    }
}

/// Time and memory are bounded by the length.
#[test]
fn hostile_sources_end() {
    let units = [
        "(",
        "[",
        "{",
        "x=>",
        "x=>:",
        "a<",
        "<a>",
        "<a b={",
        "`${",
        "a?",
        "a?b:",
        "class A{",
        "a=()=>{",
        "f(function(){",
        "a.",
        "type a=",
        "a:a<",
        "/[/ ",
        "\\u{",
        "(a):b=>",
        "case ",
        "@a ",
        "a as ",
        "a\n",
        ";",
        "😀",
        "<T,>",
        "a<b,c>(",
    ];
    for unit in units {
        let text = unit.repeat((1 << 17) / unit.len());
        let mut budget = ScopeBudget::default();
        read_functions("a.tsx", &text, &mut budget);
        assert!(budget.functions <= ScopeBudget::default().functions, "{unit}");
    }
}

#[test]
fn the_budget_is_for_all_sources_of_a_map() {
    let mut budget = ScopeBudget { bytes: 100, functions: 3 };
    let text = "const a = () => 1, b = () => 2";
    assert!(read_functions("a.js", text, &mut budget).is_some());
    assert!(read_functions("b.js", text, &mut budget).is_none(), "too many functions");
    assert!(read_functions("c.js", "1", &mut budget).is_some());
    assert!(read_functions("d.js", &" ".repeat(100), &mut budget).is_none(), "too many bytes");
}
