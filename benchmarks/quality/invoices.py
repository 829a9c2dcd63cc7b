"""Ten extraction tasks on invoices and offers; one is in German, one in Polish."""

from __future__ import annotations

from typing import Final

from benchmarks.quality.task import (
    Task,
    array,
    boolean,
    choice,
    closed_object,
    date,
    email,
    integer,
    nullable,
    number,
    text,
)

__all__ = ["INVOICES"]

INVOICES: Final[list[Task]] = [
    Task(
        name="invoice_office_supplies",
        text=(
            "INVOICE 2025-0731\n"
            "Bluefin Office Supply, Harbour Road 8, Bristol\n"
            "Date: 14 March 2025   Your order: PO-5512 of 3 March\n"
            "12 boxes copy paper A4 at 21.50 = 258.00\n"
            "3 toner cartridges at 64.00 = 192.00\n"
            "Net 450.00, VAT 20 % 90.00, total GBP 540.00\n"
            "Please pay within 30 days. Thank you for your business."
        ),
        schema=closed_object(
            invoice_number=text(20),
            customer_order_number=text(20),
            invoice_date=date(),
            line_items=array(
                closed_object(item_name=text(), quantity=integer(0, 999), unit_price=number(0, 9999)),
            ),
            total_amount=number(0, 99999, "VAT included"),
            currency=choice("EUR", "GBP", "USD", "CHF"),
        ),
        answer={
            "invoice_number": "2025-0731",
            "customer_order_number": "PO-5512",
            "invoice_date": "2025-03-14",
            "line_items": [
                {
                    "item_name": (
                        *("copy paper A4", "copy paper", "A4 copy paper", "boxes copy paper A4", "boxes of copy paper"),
                        *("boxes of copy paper A4", "box of copy paper A4", "box copy paper A4", "boxes copy paper"),
                    ),
                    "quantity": 12,
                    "unit_price": 21.5,
                },
                {"item_name": ("toner cartridges", "toner cartridge", "toner"), "quantity": 3, "unit_price": 64},
            ],
            "total_amount": 540,
            "currency": "GBP",
        },
    ),
    Task(
        name="overdue_invoice_reminder",
        text=(
            "Dear Mr Okafor,\n"
            "our invoice 88-1402 of 2 September over 1,275.00 euros fell due on 2 October and is still open. We "
            "already reminded you on 10 October. A late fee of 25.00 euros has now been added. Please transfer "
            "1,300.00 euros by 30 November 2024, otherwise we have to hand the case to a collection agency. If you "
            "paid in the last few days, please ignore this letter.\n"
            "Regards, Lena Brandt, Accounts, Nordwerk AG"
        ),
        schema=closed_object(
            invoice_number=text(20),
            debtor_name=text(),
            creditor_company=text(),
            late_fee=nullable(number(0, 9999)),
            amount_to_pay=number(0, 99999, "late fee included"),
            payment_deadline=date("the new one, from this letter"),
            is_first_reminder=boolean(),
        ),
        answer={
            "invoice_number": "88-1402",
            "debtor_name": ("Mr Okafor", "Okafor", "Mr. Okafor"),
            "creditor_company": ("Nordwerk AG", "Nordwerk"),
            "late_fee": 25,
            "amount_to_pay": 1300,
            "payment_deadline": "2024-11-30",
            "is_first_reminder": False,
        },
    ),
    Task(
        name="office_cleaning_offer",
        text=(
            "Offer no. C-2210 for Halden Dental Practice. Cleaning of 240 square metres, every Tuesday and Friday "
            "evening after 18:00. Monthly price 685 euros plus VAT; window cleaning (95 euros per visit) is not part "
            "of this offer. The contract runs for twelve months. We hold this price until 31 July 2026. Our earlier "
            "offer C-2185 of 4 May is thereby void."
        ),
        schema=closed_object(
            offer_number=text(20),
            customer_name=text(),
            area_in_square_metres=integer(0, 9999),
            cleaning_days=array(choice("monday", "tuesday", "wednesday", "thursday", "friday", "saturday"), 6),
            monthly_net_price=number(0, 99999),
            includes_window_cleaning=boolean(),
            contract_length_in_months=integer(1, 120),
            offer_valid_until=date(),
        ),
        answer={
            "offer_number": "C-2210",
            "customer_name": "Halden Dental Practice",
            "area_in_square_metres": 240,
            "cleaning_days": ["tuesday", "friday"],
            "monthly_net_price": 685,
            "includes_window_cleaning": False,
            "contract_length_in_months": 12,
            "offer_valid_until": "2026-07-31",
        },
    ),
    Task(
        name="german_electrician_invoice",
        text=(
            "Rechnung Nr. 4471/25\n"
            "Elektro Sommer GmbH, Lindenweg 3, 34117 Kassel\n"
            "Kassel, den 9. Mai 2025\n"
            "Leistung vom 28. April 2025: Austausch des Sicherungskastens bei Frau Ilse Wagner\n"
            "Arbeitszeit: 6 Stunden zu 58,00 Euro, 348,00 Euro\n"
            "Material: 212,40 Euro\n"
            "Rechnungsbetrag inkl. 19 % MwSt.: 666,88 Euro\n"
            "Zahlbar bis 23. Mai 2025 ohne Abzug."
        ),
        schema=closed_object(
            invoice_number=text(20),
            invoice_date=date(),
            customer_name=text(),
            hours_worked=number(0, 999),
            hourly_rate=number(0, 999),
            material_cost=number(0, 99999),
            total_with_tax=number(0, 99999),
            payment_due_date=date(),
        ),
        answer={
            "invoice_number": "4471/25",
            "invoice_date": "2025-05-09",
            "customer_name": ("Ilse Wagner", "Frau Ilse Wagner"),
            "hours_worked": 6,
            "hourly_rate": 58,
            "material_cost": 212.4,
            "total_with_tax": 666.88,
            "payment_due_date": "2025-05-23",
        },
    ),
    Task(
        name="credit_note_for_torn_chairs",
        text=(
            "Credit note G-309 for invoice 7781\n"
            "Dear Ms Petrov, on 6 June you returned two of the six folding chairs because the fabric was torn. We "
            "refund 2 x 34.90 = 69.80 euros to your card ending in 4410; this takes up to five working days. We also "
            "bear the return shipping of 7.50 euros. The other four chairs are not affected."
        ),
        schema=closed_object(
            credit_note_number=text(20),
            related_invoice_number=text(20),
            returned_product=text(),
            returned_quantity=integer(0, 99),
            refund_amount=number(0, 9999),
            reason_for_return=choice("damaged_product", "wrong_product", "late_delivery", "no_longer_wanted"),
            refund_method=choice("card", "bank_transfer", "voucher"),
        ),
        answer={
            "credit_note_number": "G-309",
            "related_invoice_number": "7781",
            "returned_product": ("folding chairs", "folding chair", "chairs", "two folding chairs"),
            "returned_quantity": 2,
            "refund_amount": 69.8,
            "reason_for_return": "damaged_product",
            "refund_method": "card",
        },
    ),
    Task(
        name="electricity_bill_with_estimated_reading",
        text=(
            "Electricity bill, account 660-19-2. Period: 1 January to 31 March 2026. Meter M-40718: previous reading "
            "18,204, current reading 19,051 (our estimate, since we could not reach your meter). Consumption 847 kWh "
            "at 0.31 = 262.57, standing charge 33.00, total 295.57 euros. The amount will be collected by direct debit "
            "on 20 April 2026. Last quarter you used 790 kWh."
        ),
        schema=closed_object(
            account_number=text(20),
            meter_number=text(20),
            billing_period=closed_object(first_day=date(), last_day=date()),
            consumption_in_kwh=integer(0, 99999, "in this billing period"),
            source_of_reading=choice("read_by_technician", "estimated", "reported_by_customer"),
            total_amount=number(0, 99999, "standing charge included"),
            collection_date=date(),
        ),
        answer={
            "account_number": "660-19-2",
            "meter_number": "M-40718",
            "billing_period": {"first_day": "2026-01-01", "last_day": "2026-03-31"},
            "consumption_in_kwh": 847,
            "source_of_reading": "estimated",
            "total_amount": 295.57,
            "collection_date": "2026-04-20",
        },
    ),
    Task(
        name="wedding_catering_offer",
        text=(
            "Hi Priya, thanks for your call yesterday! For your wedding on 22 August 2026 we can offer the garden menu "
            "for 85 guests at 46 euros per person, so 3,910 euros. Drinks are billed afterwards by consumption. You "
            "asked for vegan food: 12 of the 85 menus will be vegan. To book, we need a deposit of 900 euros by 15 "
            "June. You first asked about 70 guests; that price no longer applies.\n"
            "Marco, Tavola Catering"
        ),
        schema=closed_object(
            event_date=date(),
            menu_name=text(24),
            number_of_guests=integer(0, 999),
            number_of_vegan_menus=integer(0, 999),
            price_per_guest=number(0, 999),
            deposit_amount=number(0, 99999),
            price_includes_drinks=boolean(),
            catering_company=text(),
        ),
        answer={
            "event_date": "2026-08-22",
            "menu_name": ("garden menu", "the garden menu", "garden"),
            "number_of_guests": 85,
            "number_of_vegan_menus": 12,
            "price_per_guest": 46,
            "deposit_amount": 900,
            "price_includes_drinks": False,
            "catering_company": ("Tavola Catering", "Tavola"),
        },
    ),
    Task(
        name="software_subscription_receipt",
        text=(
            "Receipt for your payment\n"
            "Plan: Team, 15 seats, billed once a year\n"
            "Amount charged: USD 2,160.00 on 1 February 2026 (Visa ending in 0093)\n"
            "Your plan renews on 1 February 2027 unless you cancel before.\n"
            "Invoice: INV-00A7-0015. Billed to: accounts@merrowlabs.example\n"
            "No tax was charged because your VAT number was verified. Questions? Write to help@taskharbor.example."
        ),
        schema=closed_object(
            invoice_number=text(20),
            plan_name=text(20),
            number_of_seats=integer(1, 9999),
            billing_interval=choice("monthly", "quarterly", "yearly"),
            amount_charged=number(0, 99999),
            customer_email=email(),
            next_renewal_date=date(),
            discount_code=nullable(text(16)),
        ),
        answer={
            "invoice_number": "INV-00A7-0015",
            "plan_name": ("Team", "Team plan"),
            "number_of_seats": 15,
            "billing_interval": "yearly",
            "amount_charged": 2160,
            "customer_email": "accounts@merrowlabs.example",
            "next_renewal_date": "2027-02-01",
            "discount_code": None,
        },
    ),
    Task(
        name="pallet_freight_quote",
        text=(
            "Quote 31-B: collection in Rotterdam on 5 October 2026, delivery in Lyon on 8 October 2026. 4 euro "
            "pallets, 1,850 kg in all, no dangerous goods. Road transport 640 euros, fuel surcharge of 12 % 76.80 "
            "euros, total 716.80 euros without VAT. A tail lift costs 40 euros more and is not included. The quote is "
            "valid for 14 days from 21 September."
        ),
        schema=closed_object(
            origin_city=text(24),
            destination_city=text(24),
            delivery_date=date(),
            number_of_pallets=integer(0, 99),
            total_weight_in_kg=integer(0, 99999),
            contains_dangerous_goods=boolean(),
            total_net_price=number(0, 99999),
            insured_value=nullable(number(0, 999999)),
        ),
        answer={
            "origin_city": "Rotterdam",
            "destination_city": "Lyon",
            "delivery_date": "2026-10-08",
            "number_of_pallets": 4,
            "total_weight_in_kg": 1850,
            "contains_dangerous_goods": False,
            "total_net_price": 716.8,
            "insured_value": None,
        },
    ),
    Task(
        name="polish_window_replacement_offer",
        text=(
            "Oferta nr 118/2026\n"
            "Klient: Tomasz Kalita, ul. Lipowa 14, Gdańsk\n"
            "Wymiana pięciu okien drewnianych na okna z PVC. Cena okien: 7 250 zł, montaż: 1 600 zł, razem 8 850 zł "
            "brutto. Gwarancja: 10 lat. Termin montażu: 18 maja 2026. Oferta jest ważna do 15 kwietnia 2026. Wywóz "
            "starych okien jest w cenie."
        ),
        schema=closed_object(
            offer_number=text(20),
            customer_name=text(),
            customer_city=text(24),
            number_of_windows=integer(0, 99),
            installation_price=number(0, 99999),
            total_price=number(0, 99999),
            installation_date=date(),
            includes_removal_of_old_windows=boolean(),
        ),
        answer={
            "offer_number": "118/2026",
            "customer_name": "Tomasz Kalita",
            "customer_city": ("Gdańsk", "Gdansk"),
            "number_of_windows": 5,
            "installation_price": 1600,
            "total_price": 8850,
            "installation_date": "2026-05-18",
            "includes_removal_of_old_windows": True,
        },
    ),
]
