// Functions with the names that compilers of other languages make, and names that are not ASCII. The linkage names are
// written by hand.
#include "bugs.h"

// What a compiler has written for two functions: both are bugs of the functions that call it.
#define HELPER(name, symbol, number)                                                                        \
  KEPT int name(int x) __asm__("_" symbol);                                                                 \
  KEPT int name(int x) { FAULT(number); return x + number + armed; }                                        \
  KEPT int first_of_##name(int x) { int done = name(x); MARK(number + 1); return done + 1; }                \
  KEPT int second_of_##name(int x) { int done = name(x + 1); MARK(number + 2); return done * 2; }
// Functions that people have written.
#define NAMED(name, symbol, number)                                                                         \
  KEPT int name(int x) __asm__("_" symbol);                                                                 \
  KEPT int name(int x) { FAULT(number); return x + number + armed; }

HELPER(metadata_accessor, "$s4Shop4CartCMa", 600)
HELPER(metadata_completion, "$s4Shop4CartCMr", 603)
HELPER(value_witness, "$s4Shop4CartVwca", 606)
HELPER(outlined_destroy, "$s4Shop4CartVWOh", 609)
HELPER(outlined_copy, "$s4Shop4CartVWOhTm", 612)
HELPER(destroy_object, "objectdestroyTm", 615)
HELPER(copy_block, "__copy_helper_block_e8_32s", 618)
HELPER(destroy_block, "__destroy_helper_block_e8_32s", 621)
HELPER(copy_variable, "__Block_byref_object_copy_", 624)
// Functions that raise an exception which their caller has found, and functions of engines, each called by two others.
HELPER(kotlin_throwable, "kfun:kotlin.Throwable#<init>(kotlin.String?){}", 627)
HELPER(kotlin_own_exception, "kfun:shop.ClosedException#<init>(){}", 630)
HELPER(kotlin_throw, "ThrowNullPointerException", 633)
HELPER(kotlin_library, "kfun:kotlin.collections#first@kotlin.collections.List<0:0>(){0}0:0", 636)
HELPER(unity_raise, "il2cpp_codegen_raise_null_reference_exception", 639)
HELPER(unity_constructor, "InvalidOperationException__ctor_m0A1B2C3D4E5F6071", 642)
HELPER(unity_list, "List_1_get_Item_m1122334455667788_gshared", 645)
HELPER(dart_throw, "Dart_ThrowException", 648)
HELPER(dart_throw_new, "_TypeError._throwNew", 651)
HELPER(lua_error_of, "luaG_typeerror", 654)
HELPER(lua_engine, "luaV_execute", 657)
HELPER(mono_raise, "mono_raise_exception", 660)

NAMED(go_cart, "main.(*Cart).Total", 700)
NAMED(go_order, "main.(*Order).Total", 701)
NAMED(go_value, "main.Price.Total", 702)
NAMED(swift_plus, "$s4Shop5MoneyV1poiyA2C_ACtFZ", 703)
NAMED(swift_minus, "$s4Shop5MoneyV1soiyA2C_ACtFZ", 704)
NAMED(swift_equal, "$s4Shop5MoneyV2eeoiySbAC_ACtFZ", 705)
NAMED(swift_other_plus, "$s4Shop6WeightV1poiyA2C_ACtFZ", 706)
NAMED(swift_global_equal, "$s4Shop2eeoiySbAA5MoneyV_ADtF", 715)
NAMED(swift_other_global_equal, "$s4Shop2eeoiySbAA6WeightV_ADtF", 716)
NAMED(swift_witness, "$s4Shop5PriceVSQAASQ2eeoiySbx_xtFZTW", 717)
NAMED(swift_other_witness, "$s4Shop5OrderVSQAASQ2eeoiySbx_xtFZTW", 718)
NAMED(kotlin_constructor, "kfun:shop.Basket#<init>(){}", 719)
NAMED(kotlin_other_constructor, "kfun:shop.Order#<init>(){}", 720)
NAMED(kotlin_getter, "kfun:shop.Basket#<get-count>(){}kotlin.Int", 721)
NAMED(kotlin_other_getter, "kfun:shop.Basket#<get-total>(){}kotlin.Int", 722)
NAMED(kotlin_method, "kfun:shop.Basket#total(){}kotlin.Int", 723)
// The numbers in the names of some functions change with the build.
#ifdef WRAPPED
NAMED(kotlin_lambda, "kfun:shop.Order.submit$lambda$3#internal", 724)
NAMED(unity_method, "Cart_Total_m0A1B2C3D4E5F6071", 725)
NAMED(unity_other_method, "Cart_Sum_m0A1B2C3D4E5F6071", 726)
#else
NAMED(kotlin_lambda, "kfun:shop.Order.submit$lambda$1#internal", 724)
NAMED(unity_method, "Cart_Total_m77665544332211AA", 725)
NAMED(unity_other_method, "Cart_Sum_m77665544332211AA", 726)
#endif

KEPT int größe(int x) { FAULT(710); return x + 710 + armed; }
KEPT int größer(int x) { FAULT(711); return x + 711 + armed; }
KEPT int 数量(int x) { FAULT(712); return x + 712 + armed; }
KEPT int 金額を計算する(int x) { FAULT(713); return x + 713 + armed; }
KEPT int überprüfe_größe(int x) { FAULT(714); return x + 714 + armed; }

int run_names(int x) {
#define CALL_BOTH(name) x += first_of_##name(x); MARK(690); x += second_of_##name(x); MARK(690);
  CALL_BOTH(metadata_accessor) CALL_BOTH(metadata_completion) CALL_BOTH(value_witness)
  CALL_BOTH(outlined_destroy) CALL_BOTH(outlined_copy) CALL_BOTH(destroy_object)
  CALL_BOTH(copy_block) CALL_BOTH(destroy_block) CALL_BOTH(copy_variable)
  CALL_BOTH(kotlin_throwable) CALL_BOTH(kotlin_own_exception) CALL_BOTH(kotlin_throw) CALL_BOTH(kotlin_library)
  CALL_BOTH(unity_raise) CALL_BOTH(unity_constructor) CALL_BOTH(unity_list)
  CALL_BOTH(dart_throw) CALL_BOTH(dart_throw_new) CALL_BOTH(lua_error_of) CALL_BOTH(lua_engine) CALL_BOTH(mono_raise)
  x += swift_global_equal(x); MARK(690);
  x += swift_other_global_equal(x); MARK(690);
  x += swift_witness(x); MARK(690);
  x += swift_other_witness(x); MARK(690);
  x += kotlin_constructor(x); MARK(690);
  x += kotlin_other_constructor(x); MARK(690);
  x += kotlin_getter(x); MARK(690);
  x += kotlin_other_getter(x); MARK(690);
  x += kotlin_method(x); MARK(690);
  x += kotlin_lambda(x); MARK(690);
  x += unity_method(x); MARK(690);
  x += unity_other_method(x); MARK(690);
  x += go_cart(x); MARK(690);
  x += go_order(x); MARK(690);
  x += go_value(x); MARK(690);
  x += swift_plus(x); MARK(690);
  x += swift_minus(x); MARK(690);
  x += swift_equal(x); MARK(690);
  x += swift_other_plus(x); MARK(690);
  x += größe(x); MARK(690);
  x += größer(x); MARK(690);
  x += 数量(x); MARK(690);
  x += 金額を計算する(x); MARK(690);
  x += überprüfe_größe(x); MARK(690);
  return x;
}
