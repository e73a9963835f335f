//! Functions of languages and engines that an app brings along in its own images: Kotlin/Native, Unity (il2cpp),
//! Flutter (Dart), .NET, Lua, JavaScript engines, Python. Their names are those that their public sources give.
//!
//! A function that makes or throws an exception is never the bug. The other functions of an engine count only if
//! no function of the app does, as those of the system.

/// Functions that make, throw or report an exception that other code found, by normalised name.
const RAISERS: &[&str] = &[
    // Kotlin/Native.
    "TerminateHandler::kotlinHandler",
    "ThrowException",
    "processUnhandledException",
    "terminateWithUnhandledException",
    "kfun:kotlin#TODO",
    "kfun:kotlin#error",
    // Unity.
    "NullCheck",
    "il2cpp_raise_exception",
    "il2cpp_unhandled_exception",
    // Dart.
    "Dart_PropagateError",
    "Dart_ReThrowException",
    "Dart_ThrowException",
    // Lua, Duktape, Python, .NET, JavaScript.
    "luaD_throw",
    "luaL_argerror",
    "luaL_error",
    "luaL_typeerror",
    "lua_error",
    "duk_throw",
    "Py_FatalError",
    "mono_raise_exception",
    "mono_reraise_exception",
    "mono_unhandled_exception",
    "xamarin_process_managed_exception",
    "xamarin_throw_nsexception",
    "xamarin_unhandled_exception_handler",
    "facebook::jsi::throwJSError",
];
const RAISER_PREFIXES: &[&str] = &[
    "ExceptionObjHolder",
    "ThrowHelper_",
    "JS_Throw",
    "PyErr_",
    "_PyErr_",
    "_Py_FatalError",
    "dart::Assert::Fail",
    "dart::Exceptions::",
    "duk_error",
    "hermes::vm::Runtime::raise",
    "il2cpp::vm::Exception::",
    "il2cpp::vm::Runtime::UnhandledException",
    "il2cpp_codegen_raise_",
    "il2cpp_codegen_rethrow_",
    "kfun:kotlin#throw",
    "kfun:kotlin.native.internal#Throw",
    "kfun:kotlin.native.internal#throw",
    "luaG_",
];
/// The last parts of such names in Dart's libraries.
const DART_RAISERS: &[&str] = &["_throw", "_throwNew", "throwWithStackTrace"];
/// Words in the names of Kotlin's runtime that end a process for an exception.
const KOTLIN_WORDS: &[&str] = &["Throw", "UndeclaredException", "UnhandledException"];
/// The last words of the names of exception classes.
const EXCEPTION_WORDS: &[&str] = &["Error", "Exception", "Throwable"];

/// Prefixes of the names of engines.
const ENGINES: &[&str] = &[
    "Dart_",
    "JSC::",
    "Konan_",
    "Kotlin_",
    "Precompiled_Stub_",
    "RuntimeInvoker_",
    "ScriptingInvocation::",
    "WTF::",
    "dart::",
    "duk_",
    "facebook::hermes::",
    "facebook::jsi::",
    "flutter::",
    "fml::",
    "hermes::",
    "il2cpp::",
    "il2cpp_",
    "kfun:kotlin#",
    "kfun:kotlin.",
    "kfun:kotlinx.coroutines",
    "konan::",
    "kotlin::",
    "mono_",
    "scripting_method_invoke",
    "v8::",
    "xamarin_",
    "_PyEval_",
    "_PyObject_",
    "PyEval_",
    "PyObject_",
    "JS_Call",
    "JS_Eval",
    "JS_Invoke",
];
/// C#'s collections as il2cpp names them.
const MANAGED_GENERICS: &[&str] =
    &["Dictionary_2_", "HashSet_1_", "LinkedList_1_", "List_1_", "Queue_1_", "SortedList_2_", "Stack_1_"];
/// The fewest characters of the hash in il2cpp's name of a method.
const LEAST_HASH_CHARS: usize = 8;

/// True for a function that makes, throws or reports an exception that other code found. `name` is the normalised
/// name, and `exception` that of the report's exception.
pub(super) fn is_raiser(name: &str, exception: Option<&str>) -> bool {
    RAISERS.contains(&name)
        || RAISER_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || is_kotlin_raiser(name)
        || is_thrower_of_runtime(name)
        || is_exception_constructor(name, exception)
        || name.rsplit_once('.').is_some_and(|(_, last)| DART_RAISERS.contains(&last))
}

/// True for a function of an engine or of a language's libraries, which an app links into its own images.
pub(super) fn is_engine(name: &str) -> bool {
    ENGINES.iter().chain(MANAGED_GENERICS).any(|prefix| name.starts_with(prefix))
        || is_lua(name)
        || is_invoker(name)
}

/// True for `Kotlin_ObjCExport_trapOnUndeclaredException` and `kotlin::ProcessUnhandledException`.
fn is_kotlin_raiser(name: &str) -> bool {
    let own = ["Kotlin_", "kotlin::"].iter().find_map(|prefix| name.strip_prefix(prefix));
    own.is_some_and(|own| KOTLIN_WORDS.iter().any(|word| own.contains(word)))
}

/// True for `ThrowNullPointerException`, as Kotlin's runtime and others name the functions that throw one exception.
fn is_thrower_of_runtime(name: &str) -> bool {
    let class = name.strip_prefix("Throw").unwrap_or_default();
    class.starts_with(|c: char| c.is_ascii_uppercase())
        && class.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && names_exception(class)
}

/// True for the constructor of an exception: `kfun:kotlin.Throwable#<init>`, il2cpp's `CartException__ctor`. A class
/// of another name is one if it is the class of the report's exception.
fn is_exception_constructor(name: &str, exception: Option<&str>) -> bool {
    let kotlin = name.strip_prefix("kfun:").and_then(|name| name.strip_suffix("#<init>"));
    let managed = || name.strip_suffix("__ctor");
    let Some(class) = kotlin.or_else(managed) else { return false };
    names_exception(class) || exception == Some(class)
}

fn names_exception(class: &str) -> bool {
    EXCEPTION_WORDS.iter().any(|word| class.ends_with(word))
}

/// True for `luaV_execute` and `lua_pcallk`. Lua's own names have no other underscore.
fn is_lua(name: &str) -> bool {
    let own = name.strip_prefix("lua").map(|own| own.trim_start_matches(|c: char| c.is_ascii_uppercase()));
    let own = own.and_then(|own| own.strip_prefix('_'));
    own.is_some_and(|own| !own.is_empty() && own.bytes().all(|byte| byte.is_ascii_lowercase()))
}

/// True for `VirtualActionInvoker1::Invoke`, through which il2cpp calls a method.
fn is_invoker(name: &str) -> bool {
    let class =
        name.strip_suffix("::Invoke").map(|class| class.trim_end_matches(|c: char| c.is_ascii_digit()));
    class.is_some_and(|class| class.ends_with("ActionInvoker") || class.ends_with("FuncInvoker"))
}

/// Returns the name of a Kotlin/Native function without types, lambdas and bridges; `None` for other names.
/// `kfun:shop.Basket#total(kotlin.Int){}kotlin.Int` becomes `kfun:shop.Basket#total`, and so does the private
/// `kfun:shop.Basket.total$lambda$0#internal`. Constructors and accessors keep their brackets.
pub(super) fn kotlin_name(name: &str) -> Option<String> {
    let bridged = ["objc2kotlin_", "kotlin2objc_"].iter().find_map(|prefix| name.strip_prefix(prefix));
    let own = bridged.unwrap_or(name).strip_prefix("kfun:")?;
    let own = own.strip_suffix("-trampoline").unwrap_or(own);
    if let Some(path) = own.strip_suffix("#internal") {
        let path = without_kotlin_parts(path);
        return Some(match path.rsplit_once('.') {
            Some((class, function)) => format!("kfun:{class}#{function}"),
            None => format!("kfun:{path}"),
        });
    }
    let (class, rest) = own.split_once('#')?;
    // The receiver of an extension comes first: `shop#sum@kotlin.collections.List<kotlin.Int>(){}`.
    let end = rest.find(['(', '{', '@']).unwrap_or(rest.len());
    let function = rest.get(..end)?;
    let function = function.split_once("$lambda$").map_or(function, |(outer, _)| outer);
    Some(format!("kfun:{}#{function}", without_kotlin_parts(class)))
}

/// Removes the names of lambdas, coroutines and their objects: `Basket.$totalCOROUTINE$3.invokeSuspend` becomes
/// `Basket.total`, as `Basket.total$lambda$0` and `Basket.total$1.invoke` do.
fn without_kotlin_parts(path: &str) -> String {
    let mut out: Vec<&str> = Vec::new();
    for part in path.split('.') {
        let coroutine = part.strip_prefix('$').and_then(|part| part.split_once("COROUTINE$"));
        if let Some((function, _)) = coroutine {
            out.push(function);
            break;
        }
        let is_number = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
        let inner = part
            .split_once('$')
            .filter(|(_, inner)| *inner == "lambda" || inner.starts_with("lambda$") || is_number(inner));
        if let Some((function, _)) = inner {
            out.push(function);
            break;
        }
        out.push(part);
    }
    out.join(".")
}

/// Returns the name of a C# method as il2cpp makes it without its hash, which stands for the types of the parameters:
/// `Cart_Total` for `Cart_Total_m0A1B2C3D4E5F_gshared`. Returns `None` for other names.
pub(super) fn managed_name(name: &str) -> Option<&str> {
    let (at, _) = name.rmatch_indices("_m").next()?;
    let hash = name.get(at + "_m".len()..)?;
    let hash = hash.split('_').next().unwrap_or(hash);
    let is_hash = hash.len() >= LEAST_HASH_CHARS
        && hash.bytes().all(|byte| byte.is_ascii_digit() || (b'A'..=b'F').contains(&byte));
    name.get(..at).filter(|name| is_hash && !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_that_raise_an_exception_are_known_in_each_language() {
        for name in [
            "kfun:kotlin.Throwable#<init>",
            "kfun:kotlin.IllegalStateException#<init>",
            "kfun:org.example.CartClosedException#<init>",
            "kfun:kotlin#error",
            "kfun:kotlin.native.internal#ThrowNoWhenBranchMatchedException",
            "ThrowException",
            "ThrowNullPointerException",
            "ThrowOutOfMemoryError",
            "Kotlin_ObjCExport_trapOnUndeclaredException",
            "kotlin::ProcessUnhandledException",
            "processUnhandledException",
            "il2cpp_codegen_raise_exception",
            "il2cpp_codegen_raise_null_reference_exception",
            "il2cpp::vm::Exception::RaiseNullReferenceException",
            "ThrowHelper_ThrowArgumentOutOfRangeException",
            "InvalidOperationException__ctor",
            "NullCheck",
            "dart::Exceptions::Throw",
            "_TypeError._throwNew",
            "Error.throwWithStackTrace",
            "Dart_PropagateError",
            "luaD_throw",
            "luaG_typeerror",
            "lua_error",
            "PyErr_SetString",
            "JS_ThrowTypeError",
            "mono_raise_exception",
            "facebook::jsi::throwJSError",
        ] {
            assert!(is_raiser(name, None), "{name}");
        }
        for name in [
            "kfun:org.example.Basket#<init>",
            "kfun:org.example.Basket#total",
            "kfun:kotlin.collections#first",
            "Cart_Total",
            "Cart__ctor",
            "ThrowDice",
            "Throw",
            "ThrowPriceException_of_ours",
            "shop::Thrower::ThrowException",
            "Dice.throw",
            "lua_bridge_total",
            "dart::Heap::AllocateNewSpace",
            "Python",
        ] {
            assert!(!is_raiser(name, None), "{name}");
        }
        // A class without such a name is one if the exception is of it.
        assert!(is_raiser("kfun:org.example.CartClosed#<init>", Some("org.example.CartClosed")));
        assert!(!is_raiser("kfun:org.example.Cart#<init>", Some("org.example.CartClosed")));
    }

    #[test]
    fn functions_of_an_engine_are_known_and_those_of_the_app_are_not() {
        for name in [
            "kfun:kotlin.collections#first",
            "kfun:kotlinx.coroutines.JobSupport#cancel",
            "Kotlin_String_get",
            "kotlin::gc::GCImpl::schedule",
            "il2cpp_runtime_invoke",
            "il2cpp::vm::Runtime::Invoke",
            "VirtualActionInvoker1::Invoke",
            "InterfaceFuncInvoker0::Invoke",
            "List_1_get_Item",
            "dart::Heap::AllocateNewSpace",
            "flutter::Shell::Create",
            "luaV_execute",
            "lua_pcallk",
            "hermes::vm::Interpreter::interpretFunction",
            "mono_jit_runtime_invoke",
            "_PyEval_EvalFrameDefault",
        ] {
            assert!(is_engine(name), "{name}");
        }
        for name in [
            "kfun:org.example.kotlin.Basket#total",
            "kotlin_bridge",
            "lua_bridge_total",
            "luaBridge",
            "Lua_call",
            "Invoker::Invoke",
            "shop::ActionInvokers::Invoke",
            "Cart_Total",
            "Listing_1_total",
            "monotone",
            "Pyramid_build",
            "",
        ] {
            assert!(!is_engine(name), "{name}");
        }
    }

    #[test]
    fn names_of_kotlin_and_il2cpp_lose_what_compilers_add() {
        for (name, expected) in [
            ("kfun:shop.Basket#total(){}kotlin.Int", "kfun:shop.Basket#total"),
            ("kfun:shop.Basket#total(){}kotlin.Int-trampoline", "kfun:shop.Basket#total"),
            ("objc2kotlin_kfun:shop.Basket#total(){}kotlin.Int", "kfun:shop.Basket#total"),
            ("kfun:shop.Basket#<init>(kotlin.String?){}", "kfun:shop.Basket#<init>"),
            ("kfun:shop.Basket#<get-count>(){}kotlin.Int", "kfun:shop.Basket#<get-count>"),
            ("kfun:shop.Basket#<set-count>(kotlin.Int){}", "kfun:shop.Basket#<set-count>"),
            ("kfun:shop#sum@kotlin.collections.List<kotlin.Int>(){}kotlin.Int", "kfun:shop#sum"),
            ("kfun:shop.Basket.total$lambda$0#internal", "kfun:shop.Basket#total"),
            ("kfun:shop.Basket.$totalCOROUTINE$12.invokeSuspend#internal", "kfun:shop.Basket#total"),
            ("kfun:shop.Basket.total$1.invoke#internal", "kfun:shop.Basket#total"),
            ("kfun:shop.Basket.check#internal", "kfun:shop.Basket#check"),
            ("kfun:shop.Basket.Companion#of(kotlin.Int){}shop.Basket", "kfun:shop.Basket.Companion#of"),
        ] {
            assert_eq!(kotlin_name(name).as_deref(), Some(expected), "{name}");
        }
        for name in ["kfun:", "kfun", "shop.Basket#total", "total", ""] {
            assert_eq!(kotlin_name(name), None, "{name}");
        }
        for (name, expected) in [
            ("Cart_Total_m0A1B2C3D4E5F60718293A4B5C6D7E8F901234567", Some("Cart_Total")),
            ("Cart_Total_m1234567890_gshared", Some("Cart_Total")),
            ("List_1_get_Item_mABCDEF0123456789_gshared_inline", Some("List_1_get_Item")),
            ("Cart__ctor_m12345678", Some("Cart__ctor")),
            ("Cart_m_total", None),
            ("cart_margin", None),
            ("_m12345678", None),
            ("_memory", None),
        ] {
            assert_eq!(managed_name(name), expected, "{name}");
        }
    }
}
