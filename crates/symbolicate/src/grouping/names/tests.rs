use super::normalise_name;

#[test]
fn names_of_one_function_are_one_name() {
    for (expected, names) in [
        (
            "Shop.Cart.total(of:)",
            &[
                "Shop.Cart.total(of: Swift.Int) -> Swift.Int",
                "Shop.Cart.total(of:)",
                "static Shop.Cart.total(of: Swift.Int) throws -> Swift.Int",
                "closure #1 (Swift.Int) -> Swift.Bool in Shop.Cart.total(of: Swift.Int) -> Swift.Int",
                "generic specialization <Swift.Array<Swift.Int>> of Shop.Cart.total<A>(of: A) -> A",
                "Shop.Cart<A>.total(of: A)",
            ][..],
        ),
        (
            "Shop.List.table(_:cellForRowAt:)",
            &[
                "Shop.List.table(_:cellForRowAt:)",
                "@objc Shop.List.table(UIKit.Table, cellForRowAt: Foundation.IndexPath) -> UIKit.Cell",
                "Shop.List.table((Swift.Int, Swift.Int) -> (), cellForRowAt: [a: b]) -> UIKit.Cell",
            ],
        ),
        (
            "Shop.Cart.total",
            &[
                "Shop.Cart.total(_:)",
                "Shop.Cart.total(Swift.Int, Swift.String) -> ()",
                "closure #2 () -> () in closure #1 (Swift.Int) -> () in Shop.Cart.total()",
                "partial apply forwarder for closure #1 (Swift.Int) -> () in Shop.Cart.total()",
                "function signature specialization <Arg[0] = Dead> of Shop.Cart.total()",
                "specialized Shop.Cart.total()",
                "@objc Shop.Cart.total()",
                "(2) suspend resume partial function for Shop.Cart.total() async -> ()",
                "Shop.Cart.(total in _3F2A96E0)(Swift.Int) -> ()",
            ],
        ),
        ("Shop.Cart.count.getter", &["Shop.Cart.count.getter : Swift.Int"]),
        (
            "Shop.Cart.init(x:)",
            &["Shop.Cart.__allocating_init(x: Swift.Int) -> Shop.Cart", "Shop.Cart.init(x:)"],
        ),
        (
            "-[Cart total:]",
            &[
                "-[Cart total:]",
                "-[Cart(Sums) total:]",
                "__20-[Cart total:]_block_invoke_3",
                "invocation function for block in -[Cart total:]",
                "__14-[Cart total:]_block_invoke",
            ],
        ),
        (
            "total",
            &[
                "total",
                "total.cold.1",
                "total.llvm.123",
                "total [clone .isra.0]",
                "__total_block_invoke_2",
                "total(int)",
                "int total<int>(int)",
                "int* total<int>(int)",
                "(anonymous namespace)::total(int)",
                "total(int)::$_0::operator()(int) const",
                "total(int)::{lambda(int)#1}::operator()(int) const",
                "total(int)::'lambda0'(int)::operator()(int) const",
                "total[abi:cxx11](int)",
                "decltype(fp + fp0) total<int, int>(int, int)",
                "decltype(auto) total<int>(int)",
                "decltype(a::f[abi:v1](fp))&& total<int>(int)",
            ],
        ),
        (
            "shop::Cart::total",
            &[
                "shop::Cart<std::vector<int>>::total(std::map<int, long>) const",
                "std::vector<int> shop::Cart::total<int>()",
                "shop::Cart::total::$_1::operator()",
                "shop::Cart::total::h0123456789abcdef",
                "non-virtual thunk to shop::Cart::total()",
                "<shop::Cart as shop::Total>::total",
            ],
        ),
        ("shop::Cart::operator()", &["shop::Cart::operator()(int) const"]),
        ("prefix", &["int* prefix<int>(int)"]),
        ("shop::operator<<(std::ostream, _)", &["std::ostream& shop::operator<<<int>(std::ostream&, int)"]),
        ("shop::Cart::operator->", &["shop::Cart<int>::operator->() const"]),
        ("__cxx_global_var_init", &["__cxx_global_var_init.12"]),
        (
            "Shop.Cart.==",
            &[
                "static Shop.Cart.== infix(Shop.Cart, Shop.Cart) -> Swift.Bool",
                "static Shop.Cart<A>.== infix(Shop.Cart<A>, Shop.Cart<A>) -> Swift.Bool",
                "closure #1 (Swift.Int) -> Swift.Bool in static Shop.Cart.== infix(Shop.Cart, Shop.Cart) -> Swift.Bool",
                "static Shop.Cart.(== in _3F2A96E0) infix(Shop.Cart, Shop.Cart) -> Swift.Bool",
            ],
        ),
        ("Shop.Cart.<", &["static Shop.Cart.< infix(Shop.Cart, Shop.Cart) -> Swift.Bool"]),
        ("Shop.Cart.>", &["static Shop.Cart<A>.> infix(Shop.Cart<A>, Shop.Cart<A>) -> Swift.Bool"]),
        ("Shop.Cart...<", &["static Shop.Cart...< infix<A>(A, A) -> Shop.Cart"]),
        ("Shop.!(Shop.Cart)", &["Shop.! prefix(Shop.Cart) -> Swift.Bool"]),
        (
            "Shop.==(Shop.Cart, Shop.Cart)",
            &[
                "Shop.== infix(Shop.Cart, Shop.Cart) -> Swift.Bool",
                "Shop.(== in _3F2A96E0) infix(Shop.Cart<A>, Shop.Cart<A>) -> Swift.Bool",
                "closure #1 () -> () in Shop.== infix(Shop.Cart, Shop.Cart) -> Swift.Bool",
            ],
        ),
        (
            "Shop.==(Shop.Order, Shop.Order)",
            &["Shop.== infix<A>(Shop.Order<A>, Shop.Order<A>) -> Swift.Bool"],
        ),
        (
            "Shop.Price.==",
            &[
                "protocol witness for static Swift.Equatable.== infix(A, A) -> Swift.Bool in conformance Shop.Price : Swift.Equatable in Shop",
                "merged protocol witness for static Swift.Equatable.== infix(A, A) -> Swift.Bool in conformance Shop.Price : Swift.Equatable in Shop",
                "protocol witness for static Swift.Equatable.== infix(A, A) -> Swift.Bool in conformance <A> Shop.Price<A> : Swift.Equatable in Shop",
            ],
        ),
        (
            "Shop.Cart.total(of:)",
            &[
                "protocol witness for Shop.Total.total(of: Swift.Int) -> Swift.Int in conformance Shop.Cart : Shop.Total in Shop",
            ],
        ),
        (
            "Shop.Total.total",
            &[
                "protocol witness for Shop.Total.total() -> () in conformance Swift.Int : Shop.Total in Shop",
                "dispatch thunk of Shop.Total.total() -> ()",
            ],
        ),
        (
            "kfun:shop.Basket#total",
            &["kfun:shop.Basket#total(){}kotlin.Int", "objc2kotlin_kfun:shop.Basket#total(){}kotlin.Int"],
        ),
        ("kfun:shop.Basket#<init>", &["kfun:shop.Basket#<init>(kotlin.String?){}"]),
        (
            "Cart_Total",
            &["Cart_Total_m0A1B2C3D4E5F60718293A4B5C6D7E8F901234567", "Cart_Total_m1234567890_gshared"],
        ),
        ("Shop.Cart.++", &["static Shop.Cart.++ postfix(Shop.Cart) -> ()"]),
        ("Shop.Cart.≈", &["static Shop.Cart.≈ infix(Shop.Cart, Shop.Cart) -> Swift.Bool"]),
        ("Swift.Array.total", &["(extension in Shop):Swift.Array.total() -> Swift.Int"]),
        (
            "Shop.Cart.total.round",
            &[
                "round #1 (Swift.Int) -> Swift.Int in Shop.Cart.total() -> ()",
                "closure #1 () -> () in round #2 (Swift.Int) -> Swift.Int in Shop.Cart.total() -> ()",
            ],
        ),
        ("Shop.App.$main", &["static Shop.App.$main() -> ()"]),
        ("Shop.Cart.$count.getter", &["Shop.Cart.$count.getter : Shop.Binding<Swift.Int>"]),
        ("Shop.Cart.func1", &["Shop.Cart.func1() -> ()"]),
        (
            "main.(*Cart).Total",
            &["main.(*Cart).Total", "main.(*Cart).Total-fm", "main.(*Cart[go.shape.int]).Total"],
        ),
        (
            "example.com/shop/cart.(*Cart).Refund",
            &[
                "example.com/shop/cart.(*Cart).Refund",
                "example.com/shop/cart.(*Cart).Refund.func1",
                "example.com/shop/cart.(*Cart).Refund.func2.1.gowrap1",
            ],
        ),
        ("main.Cart.Total", &["main.Cart.Total", "main.Cart.Total.func3", "main.Cart.Total.deferwrap2"]),
        ("main.Sum", &["main.Sum[...]", "main.Sum[go.shape.int,go.shape.string]", "main.Sum.func1-range2"]),
        ("outlined destroy of Shop.Cart", &["merged outlined destroy of Shop.Cart"]),
        (
            "type metadata accessor for Shop.Cart",
            &["type metadata accessor for Shop.Cart", "merged type metadata accessor for Shop.Cart"],
        ),
        ("objectdestroy", &["objectdestroy.12"]),
        ("", &["", "(", "{lambda()#1}"]),
    ] {
        for name in names {
            assert_eq!(normalise_name(name), expected, "{name}");
        }
    }
}

#[test]
fn names_of_different_functions_stay_different() {
    let names = [
        "a::f()",
        "b::f()",
        "-[A f]",
        "+[A f]",
        "A.f()",
        "A.g()",
        "A.f(x: Swift.Int)",
        "A.f(Swift.Int, y: Swift.Int)",
        "f1",
        "f2",
        "A.x.getter : Int",
        "A.x.setter : Int",
        "main.(*A).F",
        "main.(*B).F",
        "main.(*A).G",
        "main.A.F",
        "static A.== infix(A, A) -> Swift.Bool",
        "static B.== infix(B, B) -> Swift.Bool",
        "static A.< infix(A, A) -> Swift.Bool",
        "static A.> infix(A, A) -> Swift.Bool",
        "M.== infix(M.A, M.A) -> Swift.Bool",
        "M.== infix(M.B, M.B) -> Swift.Bool",
        "kfun:shop.A#<init>(){}",
        "kfun:shop.A#<get-count>(){}kotlin.Int",
        "kfun:shop.A#<get-total>(){}kotlin.Int",
        "kfun:shop.A#<set-total>(kotlin.Int){}",
        "Cart_Total_m0A1B2C3D4E5F",
        "Cart_Sum_m0A1B2C3D4E5F",
    ];
    let normal: std::collections::BTreeSet<String> = names.iter().map(|name| normalise_name(name)).collect();
    assert_eq!(normal.len(), names.len(), "{normal:?}");
}

#[test]
fn hostile_names_are_bounded() {
    for name in [
        "<".repeat(5_000),
        "(".repeat(5_000),
        "closure #1 in ".repeat(2_000),
        "é".repeat(5_000),
        "a<>>>>>->".repeat(500),
        "a #1 () in ".repeat(2_000),
        "a.(*".repeat(2_000),
        "a. infix".repeat(2_000),
        "a[".repeat(2_000),
        "a.func1".repeat(2_000),
        format!("kfun:{}", "a$lambda.".repeat(2_000)),
        "_m12345678".repeat(2_000),
        "M.== infix(".repeat(2_000),
        "protocol witness for in conformance : ".repeat(500),
    ] {
        assert!(normalise_name(&name).len() <= super::MOST_BYTES);
    }
}
